// lora_config: the linear layers of a model that have a low-rank adapter, and the adapter's
// settings (LoRA; Hu et al., 2021), in PEFT's terms. A model with adapters trains only these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

/// A value for the layers that `layers` names (matched as a target), instead of the common value.
template <class T>
struct layer_exception {
  std::string layers;
  T value{};

  friend bool operator==(layer_exception const&, layer_exception const&) = default;
};

/// `peft_config`, with PEFT's defaults.
struct lora_config {
  std::int64_t rank = 8;               ///< r
  double alpha = 8;                    ///< lora_alpha
  double dropout = 0;                  ///< lora_dropout, applied to the adapter's input
  bool rank_stabilised = false;        ///< use_rslora
  std::vector<std::string> targets{};  ///< target_modules: last parts of layers' names
  std::vector<layer_exception<std::int64_t>> rank_pattern{};  ///< at most one entry names a layer
  std::vector<layer_exception<double>> alpha_pattern{};       ///< at most one entry names a layer

  friend bool operator==(lora_config const&, lora_config const&) = default;
};

/// Whether the target names this layer ("transformer.blocks.0.attn.Wqkv"): by its whole name or by
/// the last parts of the name.
[[nodiscard]] bool is_target(std::string_view target, std::string_view layer);

/// The value of the exception for this layer, or `fallback`.
template <class T>
[[nodiscard]] T value_for(std::vector<layer_exception<T>> const& exceptions, std::string_view layer,
                          T fallback) {
  for (auto const& exception : exceptions)
    if (is_target(exception.layers, layer)) return exception.value;
  return fallback;
}

/// The rank of this layer's adapter.
[[nodiscard]] std::int64_t lora_rank(lora_config const& lora, std::string_view layer);

/// The factor by which this layer's adapter output B A x is multiplied.
[[nodiscard]] double lora_scale(lora_config const& lora, std::string_view layer);

/// Whether this layer has an adapter.
[[nodiscard]] bool is_adapted(lora_config const& lora, std::string_view layer);

/// The end of the name of an adapter's A.
inline constexpr std::string_view lora_a_suffix = ".lora_A.weight";
/// The end of the name of an adapter's B.
inline constexpr std::string_view lora_b_suffix = ".lora_B.weight";

/// Whether a parameter of this name belongs to an adapter.
[[nodiscard]] bool is_adapter(std::string_view parameter);

}  // namespace mpt
