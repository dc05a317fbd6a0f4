// lora_config: which linear layers of a model have an adapter of low rank beside them, and how it
// begins (LoRA; Hu et al., 2021), in PEFT's terms. Only adapters are trained then.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

/// `peft_config`, with PEFT's defaults.
struct lora_config {
  std::int64_t rank = 8;               ///< r
  double alpha = 8;                    ///< lora_alpha
  double dropout = 0;                  ///< lora_dropout, of what goes into the adapter
  bool rank_stabilised = false;        ///< use_rslora
  std::vector<std::string> targets{};  ///< target_modules: last parts of layers' names

  friend bool operator==(lora_config const&, lora_config const&) = default;
};

/// What B A x is multiplied by.
[[nodiscard]] inline double lora_scale(lora_config const& lora) {
  auto const rank = static_cast<double>(lora.rank);
  return lora.alpha / (lora.rank_stabilised ? std::sqrt(rank) : rank);
}

/// Whether the target names this layer ("transformer.blocks.0.attn.Wqkv"): all of its name, or its
/// last parts.
[[nodiscard]] inline bool is_target(std::string_view target, std::string_view layer) {
  return layer == target || (layer.size() > target.size() && layer.ends_with(target) &&
                             layer[layer.size() - target.size() - 1] == '.');
}

/// Whether this layer has an adapter.
[[nodiscard]] inline bool is_adapted(lora_config const& lora, std::string_view layer) {
  for (auto const& target : lora.targets)
    if (is_target(target, layer)) return true;
  return false;
}

inline constexpr std::string_view lora_a_suffix = ".lora_A.weight";
inline constexpr std::string_view lora_b_suffix = ".lora_B.weight";

/// Whether a parameter of this name belongs to an adapter.
[[nodiscard]] inline bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(lora_a_suffix) || parameter.ends_with(lora_b_suffix);
}

}  // namespace mpt
