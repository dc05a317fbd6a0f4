// The floating-point operations that training a token takes: the numerator of MFU.
//
// N parameters take 2N forward, 2N for the gradient of what comes in and 2N for their own; the
// scores of attention 4dS, 8dS. Beside adapters (LoRA) N takes no gradient of its own, so 4N, and
// the adapters' A parameters take 6A: what is computed, where LLM Foundry gives no MFU. Parameters
// that are frozen otherwise (disable_grad, layer_freezing) count as trained ones, as there.
#pragma once

#include <cstdint>

#include <mpt/config/model.hpp>

namespace mpt {

/// Parameters that LLM Foundry's FLOPs count, N: all but an embedding table that is only looked up.
[[nodiscard]] std::int64_t active_parameter_count(model_config const& model);

/// FLOPs of a token in the products with parameters: 6N, or 4N + 6A beside adapters.
[[nodiscard]] std::int64_t parameter_flops_per_token(model_config const& model);

/// Training FLOPs of a token by LLM Foundry's formula, 6N + 12LdS (beside adapters 4N + 6A +
/// 12LdS): forward and backward, every active parameter counted, attention as if it were not
/// causal. This is the numerator of its MFU.
[[nodiscard]] std::int64_t flops_per_token(model_config const& model, std::int64_t seq_len);

/// Training FLOPs of a token with only the scores that the causal mask and the layers' windows
/// keep: 6N + 12d times the mean number of keys a token sees, over layers; (S + 1) / 2 where
/// there is no window.
[[nodiscard]] std::int64_t causal_flops_per_token(model_config const& model, std::int64_t seq_len);

}  // namespace mpt
