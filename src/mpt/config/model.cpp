#include <mpt/config/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

namespace mpt {

std::int64_t ffn_hidden(model_config const& model) {
  if (model.ffn_hidden_size) return *model.ffn_hidden_size;
  return std::llround(model.expansion_ratio * static_cast<double>(model.d_model));
}

std::int64_t head_dim(model_config const& model) {
  return model.head_dim.value_or(model.d_model / model.n_heads);
}

bool is_default_head_dim(model_config const& model) {
  return model.head_dim && model.d_model % model.n_heads == 0 &&
         *model.head_dim == model.d_model / model.n_heads;
}

std::int64_t query_width(model_config const& model) { return model.n_heads * head_dim(model); }

bool has_norm_bias(model_config const& model, norm_kind kind) {
  return model.norm_bias.value_or(!model.no_bias) && !is_rms(kind);
}

bool has_input_norms(model_config const& model) {
  return model.branch_norms != norm_position::output;
}

bool has_output_norms(model_config const& model) {
  return model.branch_norms != norm_position::input;
}

std::int64_t kv_heads(model_config const& model) {
  return model.attn.kv_n_heads.value_or(model.n_heads);
}

attention_config attention_of_layer(model_config const& model, std::int64_t i) {
  return model.layers.empty()
             ? model.attn
             : with_overrides(model.attn, model.layers[static_cast<std::size_t>(i)]);
}

std::int64_t key_source(model_config const& model, std::int64_t i) {
  while (!model.layers.empty()) {
    auto const& offset = model.layers[static_cast<std::size_t>(i)].reuse_kv_layer_idx;
    if (!offset) break;
    i += *offset;
  }
  return i;
}

std::int64_t key_reuses(model_config const& model) {
  return std::ranges::count_if(model.layers, [](layer_override const& layer) {
    return layer.reuse_kv_layer_idx.has_value();
  });
}

bool has_attention_bias(model_config const& model) {
  return model.attention_bias.value_or(!model.no_bias);
}

bool has_out_proj_bias(model_config const& model) {
  return model.out_proj_bias.value_or(!model.no_bias);
}

double residual_divisor(model_config const& model) {
  auto const layers = static_cast<double>(model.n_layers);
  if (model.init.name == init_scheme::torch_default)
    return 1;  // PyTorch's initialisation is never divided
  if (model.init.name == init_scheme::neox) return layers / std::sqrt(10.0);
  if (auto const* divisor = std::get_if<double>(&model.init.init_div_is_residual)) return *divisor;
  return std::get<bool>(model.init.init_div_is_residual) ? std::sqrt(2 * layers) : 1;
}

std::string_view positions_name(model_config const& model) {
  if (model.attn.alibi) return model.attn.rope ? "ALiBi and rotary positions" : "ALiBi";
  if (model.attn.rope) return "rotary positions";
  return model.learned_pos_emb ? "learned positions" : "no positions";
}

void check_model(model_config const& model, std::string_view prefix) {
  auto const require_range = [&](std::int64_t value, std::int64_t largest, std::string_view name) {
    parallel::require(value >= 1 && value <= largest, prefix, name, " must be from 1 to ", largest,
                      ", found ", value);
  };
  auto const require_probability = [&](double value, std::string_view name) {
    parallel::require(value >= 0 && value < 1, prefix, name,
                      " is a dropout probability from 0 to below 1, found ", value);
  };
  require_range(model.d_model, largest_d_model, "d_model");
  require_range(model.n_heads, model.d_model, "n_heads");
  require_range(model.n_layers, largest_n_layers, "n_layers");
  require_range(model.max_seq_len, largest_seq_len, "max_seq_len");
  require_range(model.vocab_size, largest_vocab, "vocab_size");
  if (model.head_dim) require_range(*model.head_dim, largest_d_model / model.n_heads, "head_dim");
  parallel::require(model.head_dim || model.d_model % model.n_heads == 0, prefix, "d_model ",
                    model.d_model, " must be divisible by n_heads ", model.n_heads);
  if (model.ffn_hidden_size) {
    require_range(*model.ffn_hidden_size, largest_ffn, "ffn_config.ffn_hidden_size");
  } else {
    double const hidden = model.expansion_ratio * static_cast<double>(model.d_model);
    parallel::require(hidden >= 1 && hidden <= static_cast<double>(largest_ffn) &&
                          std::fabs(hidden - std::round(hidden)) < 1e-6,
                      prefix, "expansion_ratio ", model.expansion_ratio, " times d_model ",
                      model.d_model, " must be a whole number from 1 to ", largest_ffn);
  }
  if (model.experts) check_experts(model, prefix);
  require_probability(model.resid_pdrop, "resid_pdrop");
  require_probability(model.emb_pdrop, "emb_pdrop");
  parallel::require(model.norm_eps > 0 && model.norm_eps < 1, prefix,
                    "norm_eps must be above 0 and below 1, found ", model.norm_eps);
  parallel::require(model.embedding_fraction > 0 && model.embedding_fraction <= 1, prefix,
                    "embedding_fraction must be above 0 and at most 1, found ",
                    model.embedding_fraction);
  for (auto const& [name, factor] : {std::pair{"embedding_scale", model.embedding_scale},
                                     std::pair{"residual_scale", model.residual_scale}})
    parallel::require(factor > 0 && std::isfinite(factor), prefix, name,
                      " must be a number above 0, found ", factor);
  parallel::require(!model.fused_gate || model.ffn_type == ffn_kind::mptglu, prefix,
                    "ffn_config.fused_gate belongs to ffn_type mptglu, which has a gate");
  if (model.final_logit_softcapping)
    parallel::require(*model.final_logit_softcapping > 0, prefix,
                      "final_logit_softcapping must be above 0, or null for none, found ",
                      *model.final_logit_softcapping);
  check_attention(model.attn, model.n_heads, head_dim(model), prefix);
  if (model.attn.rope && model.attn.rope->xpos_scale_base) {
    double const needed = static_cast<double>(model.max_seq_len) * largest_xpos_decay / 2 /
                          64;  // a scale up to e^64 leaves float32 room for products
    parallel::require(*model.attn.rope->xpos_scale_base >= needed, prefix,
                      "attn_config.rope_dail_config.xpos_scale_base ",
                      *model.attn.rope->xpos_scale_base, " lets queries of sequences of ",
                      model.max_seq_len, " grow beyond float32; it must be at least ",
                      std::ceil(needed));
  }
  parallel::require(!((model.attn.alibi || model.attn.rope) && model.learned_pos_emb), prefix,
                    "learned_pos_emb must be false with attn_config.alibi and attn_config.rope");
  parallel::require(
      model.layers.empty() || static_cast<std::int64_t>(model.layers.size()) == model.n_layers,
      prefix, "block_overrides describes ", model.layers.size(), " layers, but n_layers is ",
      model.n_layers);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    auto const& layer = model.layers[i];
    auto const offset = layer.reuse_kv_layer_idx.value_or(-1);
    parallel::require(offset < 0, prefix,
                      "block_overrides: reuse_kv_layer_idx counts layers backwards "
                      "from the one that has it (-1 is the layer before), found ",
                      offset);
    parallel::require(!layer.reuse_kv_layer_idx || static_cast<std::int64_t>(i) + offset >= 0,
                      prefix, "block_overrides: reuse_kv_layer_idx ", offset, " of layer ", i,
                      " leads before the first layer");
    parallel::require(!layer.rope_theta || (model.attn.rope && !layer.nope), prefix,
                      "block_overrides: rope_theta belongs to rope, which the layer does not have");
    check_attention(with_overrides(model.attn, layer), model.n_heads, head_dim(model), prefix);
    parallel::require(!(layer.nope && model.learned_pos_emb), prefix,
                      "block_overrides: nope switches rope or ALiBi off in a layer; it cannot be "
                      "used with learned_pos_emb");
  }
}

std::int64_t non_embedding_parameter_count(model_config const& model) {
  std::int64_t const d = model.d_model;
  std::int64_t const hidden = ffn_hidden(model);
  auto const norm_parameters = [&](norm_kind kind, std::int64_t width) {
    return has_norm_bias(model, kind) ? 2 * width : width;
  };
  std::int64_t const norm = norm_parameters(model.norm_type, d);
  std::int64_t const width = query_width(model);
  std::int64_t const kv_width = kv_heads(model) * head_dim(model);
  std::int64_t const norm_width =
      model.attn.qk_ln ? width + kv_width : (model.attn.qk_gn ? 2 * head_dim(model) : 0);
  std::int64_t const attention =
      2 * d * (width + kv_width) + (has_attention_bias(model) ? width + 2 * kv_width : 0) +
      (has_out_proj_bias(model) ? d : 0) + norm_parameters(model.attn.norm_type, norm_width);
  // Wk, Wv and k_ln, which a layer that reuses keys does not have
  std::int64_t const reused_parameters =
      2 * d * kv_width + (has_attention_bias(model) ? 2 * kv_width : 0) +
      norm_parameters(model.attn.norm_type, model.attn.qk_ln   ? kv_width
                                            : model.attn.qk_gn ? head_dim(model)
                                                               : 0);
  std::int64_t const input_projections = ffn_matrix_count(model) - 1;
  std::int64_t const ffn =
      (input_projections + 1) * d * hidden + (model.no_bias ? 0 : input_projections * hidden + d);
  std::int64_t const norms = has_input_norms(model) + has_output_norms(model);
  std::int64_t const mixtures = expert_layer_count(model);
  return model.n_layers * (attention + 2 * norms * norm) + (model.n_layers - mixtures) * ffn +
         (mixtures > 0 ? mixtures * expert_layer_parameters(model) : 0) -
         key_reuses(model) * reused_parameters + norm;
}

std::int64_t parameter_count(model_config const& model) {
  std::int64_t const positions = model.learned_pos_emb ? model.max_seq_len : 0;
  std::int64_t const embedding_tables = model.tie_word_embeddings ? 1 : 2;
  return (embedding_tables * model.vocab_size + positions) * model.d_model +
         non_embedding_parameter_count(model);
}

}  // namespace mpt
