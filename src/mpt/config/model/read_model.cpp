#include <mpt/config/model/read_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <mpt/config/model/family.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {
namespace {

[[nodiscard]] double read_limit(config_reader const& reader, config_node const& node) {
  auto const number = node.is_scalar() ? parse_number(node.text) : std::nullopt;
  reader.check("emb_init_uniform_lim", number.has_value(),
               "expected a number or a list of two, found ", describe(node));
  return *number;
}

/// Reports the keys that the chosen initialisation does not use.
void report_unused_init_keys(config_reader& reader, init_scheme scheme,
                             std::string_view nonlinearity) {
  using enum init_scheme;
  bool const kaiming = scheme == kaiming_normal || scheme == kaiming_uniform;
  bool const xavier = scheme == xavier_normal || scheme == xavier_uniform;
  if (scheme != baseline) reader.report_without_effect("init_std", "belongs to baseline_");
  if (!xavier && !(kaiming && nonlinearity == "leaky_relu"))
    reader.report_without_effect("init_gain", "belongs to xavier, and to kaiming with leaky_relu");
  if (!kaiming)
    reader.report_all_without_effect({"fan_mode", "init_nonlinearity"}, "belongs to kaiming");
  if (scheme == torch_default)
    reader.report_all_without_effect({"emb_init_std", "emb_init_uniform_lim"},
                                     "default_ is PyTorch's own, of embeddings too");
}

[[nodiscard]] init_config read_init(config_reader& reader) {
  init_config init;
  init.name =
      detail::read_name(reader, "name", "kaiming_normal_", init_scheme_names, "an initialisation");
  init.emb_init_std = reader.optional<double>("emb_init_std");
  if (config_node const* const limit = reader.raw("emb_init_uniform_lim")) {
    if (limit->is_list()) {
      reader.check("emb_init_uniform_lim", limit->items.size() == 2,
                   "expected a number or a list of two, found a list of ", limit->items.size());
      init.emb_init_uniform_lim = {read_limit(reader, limit->items[0]),
                                   read_limit(reader, limit->items[1])};
    } else {
      double const bound = read_limit(reader, *limit);
      init.emb_init_uniform_lim = {-bound, bound};
    }
    reader.check("emb_init_uniform_lim",
                 (*init.emb_init_uniform_lim)[0] <= (*init.emb_init_uniform_lim)[1],
                 "the lower limit is above the upper one");
    reader.check("emb_init_uniform_lim", !init.emb_init_std,
                 "give emb_init_std or emb_init_uniform_lim, not both");
  }
  if (config_node const* const divisor = reader.raw("init_div_is_residual")) {
    auto const truth = parse_bool(divisor->text);
    auto const number = parse_number(divisor->text);
    reader.check("init_div_is_residual", divisor->is_scalar() && (truth || (number && *number > 0)),
                 "expected true, false or a number above 0, found ", describe(*divisor));
    if (truth)
      init.init_div_is_residual = *truth;
    else
      init.init_div_is_residual = *number;
  }
  init.init_std = reader.optional<double>("init_std");
  init.init_gain = reader.get("init_gain", init.init_gain);
  init.fan_mode = reader.one_of("fan_mode", init.fan_mode, {"fan_in", "fan_out"});
  init.init_nonlinearity =
      reader.one_of("init_nonlinearity", init.init_nonlinearity,
                    {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"});
  reader.accept_without_effect("verbose", "there are no further messages");
  report_unused_init_keys(reader, init.name, init.init_nonlinearity);
  for (auto const& [key, deviation] :
       {std::pair{"emb_init_std", init.emb_init_std}, std::pair{"init_std", init.init_std}})
    reader.check(key, deviation.value_or(0) >= 0, "a standard deviation cannot be negative");
  reader.check("init_std", init.name != init_scheme::baseline || init.init_std,
               "baseline_ needs it");
  reader.check("init_gain",
               init.init_gain > 0 || (init.name != init_scheme::xavier_uniform &&
                                      init.name != init_scheme::xavier_normal),
               "xavier needs a gain above 0 (1 is usual); 0 would make every weight 0");
  return init;
}

/// Reads `fc_type`, a name or a mapping that holds one.
void read_fc_type(config_reader& reader) {
  config_node const* const node = reader.raw("fc_type");
  if (node == nullptr) return;
  if (node->is_map()) {
    auto section = reader.section("fc_type");
    section.refuse_unsupported("name", "use torch", {"torch"});
    section.accept_without_effect("bias", "no_bias and attention_bias decide");
    section.accept_without_effect("device", "weights are created on the device that trains them");
    section.finish();
  } else {
    reader.refuse_unsupported("fc_type", "use torch", {"torch"});
  }
}

void read_ffn(config_reader& reader, model_config& model) {
  auto const type = reader.get<std::string>("ffn_type", "mptmlp");
  auto const kind = std::ranges::find(experts_kind_names, type,
                                      &std::pair<std::string_view, experts_kind>::first);
  bool const has_experts = kind != experts_kind_names.end();
  reader.check("ffn_type", type == "mptmlp" || type == "mptglu" || has_experts, "'",
               printable(type),
               "' is not supported; use mptmlp or mptglu, or torch_dmoe, mb_dmoe or mb_moe");
  model.fused_gate = reader.get("fused_gate", model.fused_gate);
  if (type == "mptglu") model.ffn_type = ffn_kind::mptglu;
  model.ffn_hidden_size = reader.optional<std::int64_t>("ffn_hidden_size");
  if (has_experts) read_experts(reader, kind->second, model);
  read_fc_type(reader);
  bool const is_megablocks_default =
      has_experts && kind->second != experts_kind::torch_dmoe && !reader.has_key("ffn_act_fn");
  auto activation = reader.section("ffn_act_fn");
  model.ffn_act_fn =
      detail::read_name(activation, "name", "gelu", activation_names, "an activation here");
  auto const approximate = activation.one_of("approximate", "none", {"none", "tanh"});
  if (approximate == "tanh") {
    activation.check("approximate", model.ffn_act_fn == parallel::ops::activation_kind::gelu,
                     "belongs to gelu");
    model.ffn_act_fn = parallel::ops::activation_kind::gelu_tanh;
  }
  if (is_megablocks_default) model.ffn_act_fn = parallel::ops::activation_kind::gelu_tanh;
  activation.finish();
  reader.finish();
}

}  // namespace

model_config read_model(config_reader& reader) {
  model_config model;
  for (auto const& [key, field] :
       {std::pair{"d_model", &model.d_model}, std::pair{"n_heads", &model.n_heads},
        std::pair{"n_layers", &model.n_layers}, std::pair{"max_seq_len", &model.max_seq_len},
        std::pair{"vocab_size", &model.vocab_size}})
    *field = reader.get(key, *field);
  for (auto const& [key, field] :
       {std::pair{"expansion_ratio", &model.expansion_ratio},
        std::pair{"resid_pdrop", &model.resid_pdrop}, std::pair{"emb_pdrop", &model.emb_pdrop},
        std::pair{"norm_eps", &model.norm_eps}})
    *field = reader.get(key, *field);
  reader.check("d_model", model.d_model > 0, "must be above 0, found ", model.d_model);
  reader.check("n_heads", model.n_heads > 0, "must be above 0, found ", model.n_heads);
  model.head_dim = reader.optional<std::int64_t>("head_dim");
  reader.check("head_dim", model.head_dim.value_or(1) > 0, "must be above 0, found ",
               model.head_dim.value_or(1));
  if (is_default_head_dim(model)) model.head_dim.reset();
  model.family = reader.get("family", model.family);
  reader.check("family", model.family == "mpt" || find_family(model.family) != nullptr, "'",
               printable(model.family), "' is no family of models that is known");
  model.learned_pos_emb = reader.get("learned_pos_emb", model.learned_pos_emb);
  model.no_bias = reader.get("no_bias", model.no_bias);
  model.attention_bias = reader.optional<bool>("attention_bias");
  model.out_proj_bias = reader.optional<bool>("out_proj_bias");
  model.norm_bias = reader.optional<bool>("norm_bias");
  model.parallel_residual = reader.get("parallel_residual", model.parallel_residual);
  model.branch_norms =
      detail::read_name(reader, "branch_norms", "input", norm_position_names, "a place of norms");
  model.norm_unit_offset = reader.get("norm_unit_offset", model.norm_unit_offset);
  model.embedding_scale = reader.get("embedding_scale", model.embedding_scale);
  model.residual_scale = reader.get("residual_scale", model.residual_scale);
  model.norm_type =
      detail::read_name(reader, "norm_type", "low_precision_layernorm", norm_kind_names, "a norm");
  if (config_node const* const scale = reader.raw("logit_scale")) {
    auto const number = scale->is_scalar() ? parse_number(scale->text) : std::nullopt;
    reader.check("logit_scale", number || scale->text == "inv_sqrt_d_model",
                 "expected a number or 'inv_sqrt_d_model', found ", describe(*scale));
    model.logit_scale = number ? *number : 1 / std::sqrt(static_cast<double>(model.d_model));
  }
  auto attention = reader.section("attn_config");
  model.attn = detail::read_attention(attention, model.d_model);
  attention.finish();
  if (model.attn.alibi || model.attn.rope) {  // as in LLM Foundry, also when the key says true
    if (model.learned_pos_emb && reader.has_key("learned_pos_emb"))
      reader.report_without_effect("learned_pos_emb", "alibi and rope replace it");
    model.learned_pos_emb = false;
  }
  model.layers = detail::read_overrides(reader, model.n_layers);
  bool const is_tuned = std::ranges::any_of(
      model.layers, [](layer_override const& layer) { return layer.attn_scale.has_value(); });
  if (model.attn.temperature.attn_scale == 0 && !is_tuned)
    attention.members("attn_temperature_tuning")
        .report_without_effect("floor_scale", "attn_scale is 0: nothing is tuned");
  auto init = reader.section("init_config");
  model.init = read_init(init);
  init.finish();
  auto ffn = reader.section("ffn_config");
  read_ffn(ffn, model);
  read_fc_type(reader);
  if (model.ffn_hidden_size)
    reader.report_without_effect("expansion_ratio", "ffn_config.ffn_hidden_size is the width");

  reader.refuse_unsupported("name", "use mpt_causal_lm", {"mpt_causal_lm"});
  model.tie_word_embeddings = reader.get("tie_word_embeddings", model.tie_word_embeddings);
  model.embedding_fraction = reader.get("embedding_fraction", model.embedding_fraction);
  model.final_logit_softcapping = reader.optional<double>("final_logit_softcapping");
  reader.accept_without_effect(
      "fuse_norm_attn_norm",
      "it groups modules; the names of tensors are the plain ones, either is read");
  reader.refuse_unsupported("additional_train_metrics",
                            "loss, perplexity and token accuracy are always measured");
  reader.refuse_unsupported("master_weights_dtype", "master weights are float32",
                            {"float32", "fp32"});
  reader.accept_without_effect("init_device", "weights are created on the device that trains them");
  reader.accept_without_effect("loss_fn", "there is one cross entropy, fused and exact");
  reader.accept_without_effect("use_train_metrics", "training metrics cost nothing here");
  reader.accept_without_effect("use_cache", "generation always keeps keys and values");
  reader.accept_without_effect("use_pad_tok_in_ffn", "there is no padding");
  reader.accept_without_effect("verbose", "there are no further messages");

  check_model(model, parallel::concat(reader.location_of(""), ": ", reader.full_name("")));
  return model;
}

}  // namespace mpt
