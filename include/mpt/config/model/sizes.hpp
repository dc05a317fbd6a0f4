// The nine published sizes by name, in the form of LLM Foundry's YAMLs, and the hub's form.
//
// Numbers: LLM Foundry's scripts/train/yamls/pretrain/mpt-*.yaml (all head_dim 64 or 128).
//
// And the floating-point operations (FLOPs) of training on one token: the numerator of MFU.
//
// N parameters take 2N forward, 2N for the gradient of their input and 2N for their own gradient;
// attention scores take 4dS forward and 8dS backward. With adapters (LoRA) the N frozen parameters
// have no gradient, so they take 4N, and the adapters' A parameters take 6A; LLM Foundry reports no
// MFU in this case. Parameters that are frozen otherwise (disable_grad, layer_freezing) count as
// trained, as in LLM Foundry.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpt/config/model.hpp>

namespace mpt {

/// A published size: its name without "mpt-" and its dimensions.
struct model_size {
  std::string_view name;
  std::int64_t d_model = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_layers = 0;
};

/// Smallest first.
inline constexpr std::array<model_size, 9> model_sizes{{{"125m", 768, 12, 12},
                                                        {"350m", 1024, 16, 24},
                                                        {"760m", 1536, 12, 24},
                                                        {"1b", 2048, 16, 24},
                                                        {"3b", 2560, 20, 32},
                                                        {"7b", 4096, 32, 32},
                                                        {"13b", 5120, 40, 40},
                                                        {"30b", 7168, 56, 48},
                                                        {"70b", 8192, 64, 80}}};

/// Form (a) of a size: learned positions, biases, vocabulary 50368, 2048 positions. Takes "125m" or
/// "mpt-125m".
[[nodiscard]] model_config named_size(std::string_view name);

/// Form (b) of the same shape, as on the Hugging Face hub: ALiBi, no bias anywhere, vocabulary
/// 50432.
[[nodiscard]] model_config hub_form(model_config model);

/// Parameters that LLM Foundry's FLOPs count, N: all but an embedding table that is only looked up,
/// and of experts as many as a token uses.
[[nodiscard]] std::int64_t active_parameter_count(model_config const& model);

/// FLOPs per token in the products with parameters: 6N, or 4N + 6A with adapters.
[[nodiscard]] std::int64_t parameter_flops_per_token(model_config const& model);

/// Training FLOPs per token by LLM Foundry's formula, 6N + 12LdS (with adapters 4N + 6A + 12LdS):
/// forward and backward, every active parameter counted, attention counted as if it were not
/// causal, in a layer with a window over its keys instead of S. LLM Foundry's MFU uses this number.
[[nodiscard]] std::int64_t flops_per_token(model_config const& model, std::int64_t seq_len);

/// Training FLOPs per token with only the scores inside the causal mask and the layers' windows:
/// 6N + 12d times the mean number of keys a token sees, summed over layers. That mean is
/// (S + 1) / 2 if there is no window.
[[nodiscard]] std::int64_t causal_flops_per_token(model_config const& model, std::int64_t seq_len);

}  // namespace mpt
