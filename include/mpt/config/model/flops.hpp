// The floating-point operations (FLOPs) of training on one token: the numerator of MFU.
//
// N parameters take 2N forward, 2N for the gradient of their input and 2N for their own gradient;
// attention scores take 4dS forward and 8dS backward. With adapters (LoRA) the N frozen parameters
// have no gradient, so they take 4N, and the adapters' A parameters take 6A; LLM Foundry reports no
// MFU in this case. Parameters that are frozen otherwise (disable_grad, layer_freezing) count as
// trained, as in LLM Foundry.
#pragma once

#include <cstdint>

#include <mpt/config/model.hpp>

namespace mpt {

/// Parameters that LLM Foundry's FLOPs count, N: all but an embedding table that is only looked up.
[[nodiscard]] std::int64_t active_parameter_count(model_config const& model);

/// FLOPs per token in the products with parameters: 6N, or 4N + 6A with adapters.
[[nodiscard]] std::int64_t parameter_flops_per_token(model_config const& model);

/// Training FLOPs per token by LLM Foundry's formula, 6N + 12LdS (with adapters 4N + 6A + 12LdS):
/// forward and backward, every active parameter counted, attention counted as if it were not
/// causal. LLM Foundry's MFU uses this number.
[[nodiscard]] std::int64_t flops_per_token(model_config const& model, std::int64_t seq_len);

/// Training FLOPs per token with only the scores inside the causal mask and the layers' windows:
/// 6N + 12d times the mean number of keys a token sees, summed over layers. That mean is
/// (S + 1) / 2 if there is no window.
[[nodiscard]] std::int64_t causal_flops_per_token(model_config const& model, std::int64_t seq_len);

}  // namespace mpt
