// norm_kind: LLM Foundry's `norm_type` for the model's norms and for the norms of queries and keys.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace mpt {

/// `norm_type`. All layernorm names mean one arithmetic here, and so do all rmsnorm names: input
/// and output have the type of activations, and the arithmetic is fp32.
enum class norm_kind {
  layernorm,
  low_precision_layernorm,
  rmsnorm,
  low_precision_rmsnorm,
  triton_rmsnorm
};

/// LLM Foundry's spelling of each norm_kind.
inline constexpr std::array<std::pair<std::string_view, norm_kind>, 5> norm_kind_names{
    {{"layernorm", norm_kind::layernorm},
     {"low_precision_layernorm", norm_kind::low_precision_layernorm},
     {"rmsnorm", norm_kind::rmsnorm},
     {"low_precision_rmsnorm", norm_kind::low_precision_rmsnorm},
     {"triton_rmsnorm", norm_kind::triton_rmsnorm}}};

/// Whether the norm only scales rows, without centring them.
[[nodiscard]] constexpr bool is_rms(norm_kind kind) {
  return kind != norm_kind::layernorm && kind != norm_kind::low_precision_layernorm;
}

}  // namespace mpt
