#include <mpt/config/model/sizes.hpp>

#include <algorithm>
#include <string>

#include <mpt/config/model/linear_layers.hpp>

namespace mpt {

model_config named_size(std::string_view name) {
  std::string_view const short_name = name.starts_with("mpt-") ? name.substr(4) : name;
  std::string known;
  for (model_size const& size : model_sizes) {
    if (size.name == short_name) {
      model_config model;
      model.d_model = size.d_model;
      model.n_heads = size.n_heads;
      model.n_layers = size.n_layers;
      return model;
    }
    known.append(known.empty() ? "" : ", ").append(size.name);
  }
  parallel::fail("'", name, "' is not the name of a model size; there are ", known);
}

namespace {

/// The most keys, its own included, that a token of a sequence sees in layer i.
[[nodiscard]] std::int64_t longest_window(model_config const& model, std::int64_t i,
                                          std::int64_t seq_len) {
  auto const window = attention_of_layer(model, i).sliding_window_size;
  return window < 0 ? seq_len : std::min(seq_len, window + 1);
}

}  // namespace

model_config hub_form(model_config model) {
  model.learned_pos_emb = false;
  model.attn.alibi = true;
  model.no_bias = true;
  model.attention_bias.reset();
  model.vocab_size = 50432;
  return model;
}

std::int64_t active_parameter_count(model_config const& model) {
  return used_parameter_count(model) -
         (model.tie_word_embeddings ? 0 : model.vocab_size * model.d_model);
}

std::int64_t parameter_flops_per_token(model_config const& model) {
  return (model.lora ? 4 : 6) * active_parameter_count(model) + 6 * adapter_parameter_count(model);
}

std::int64_t flops_per_token(model_config const& model, std::int64_t seq_len) {
  std::int64_t keys = 0;  // that a token's scores are computed for, summed over the layers
  for (std::int64_t i = 0; i < model.n_layers; ++i) keys += longest_window(model, i, seq_len);
  return parameter_flops_per_token(model) + 12 * query_width(model) * keys;
}

std::int64_t causal_flops_per_token(model_config const& model, std::int64_t seq_len) {
  std::int64_t pairs = 0;  // (query, key) pairs of one sequence, summed over the layers
  for (std::int64_t i = 0; i < model.n_layers; ++i) {
    std::int64_t const full_window = longest_window(model, i, seq_len);
    pairs += full_window * (full_window + 1) / 2 + (seq_len - full_window) * full_window;
  }
  return parameter_flops_per_token(model) +
         static_cast<std::int64_t>(12.0L * static_cast<long double>(query_width(model)) *
                                   static_cast<long double>(pairs) /
                                   static_cast<long double>(seq_len));
}

}  // namespace mpt
