// The nine published sizes by name, in the form of LLM Foundry's YAMLs, and the hub's form.
//
// Numbers: LLM Foundry's scripts/train/yamls/pretrain/mpt-*.yaml (all head_dim 64 or 128).
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

}  // namespace mpt
