// The floating-point operations that training a token takes: the numerator of MFU.
//
// N parameters take 2N forward, 2N for the gradient of what comes in and 2N for their own; the
// scores of attention 4dS, 8dS. Beside adapters (LoRA) N takes no gradient of its own, so 4N, and
// the adapters' A parameters take 6A: what is computed, where LLM Foundry gives no MFU. Parameters
// that are frozen otherwise (disable_grad, layer_freezing) count as trained ones, as there.
#pragma once

#include <algorithm>
#include <cstdint>

#include <mpt/config/linear_layers.hpp>
#include <mpt/config/model.hpp>

namespace mpt {

/// Parameters that LLM Foundry's FLOPs count, N: all but an embedding table that is only looked up.
[[nodiscard]] inline std::int64_t active_parameter_count(model_config const& model) {
  return parameter_count(model) -
         (model.tie_word_embeddings ? 0 : model.vocab_size * model.d_model);
}

/// FLOPs of a token in the products with parameters: 6N, or 4N + 6A beside adapters.
[[nodiscard]] inline std::int64_t parameter_flops_per_token(model_config const& model) {
  return (model.lora ? 4 : 6) * active_parameter_count(model) + 6 * adapter_parameter_count(model);
}

/// Training FLOPs of a token by LLM Foundry's formula, 6N + 12LdS (beside adapters 4N + 6A +
/// 12LdS): forward and backward, every active parameter counted, attention as if it were not
/// causal. This is the numerator of its MFU.
[[nodiscard]] inline std::int64_t flops_per_token(model_config const& model, std::int64_t seq_len) {
  return parameter_flops_per_token(model) + 12 * model.n_layers * model.d_model * seq_len;
}

/// Training FLOPs of a token with only the scores that the causal mask and the layers' windows
/// keep: 6N + 12d times the mean number of keys a token sees, over layers; (S + 1) / 2 where
/// there is no window.
[[nodiscard]] inline std::int64_t causal_flops_per_token(model_config const& model,
                                                         std::int64_t seq_len) {
  std::int64_t pairs = 0;  // of one sequence, over layers
  for (std::int64_t i = 0; i < model.n_layers; ++i) {
    auto const window = attention_of_layer(model, i).sliding_window_size;
    std::int64_t const most = window < 0 ? seq_len : std::min(seq_len, window + 1);
    pairs += most * (most + 1) / 2 + (seq_len - most) * most;
  }
  return parameter_flops_per_token(model) +
         static_cast<std::int64_t>(12.0L * static_cast<long double>(model.d_model) *
                                   static_cast<long double>(pairs) /
                                   static_cast<long double>(seq_len));
}

}  // namespace mpt
