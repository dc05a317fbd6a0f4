// norm_kind: LLM Foundry's `norm_type`, of the model's norms and of those of queries and keys.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace mpt {

/// `norm_type`. Here the names of one rule mean the same: activations in, activations out, the
/// arithmetic in between in fp32.
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

[[nodiscard]] constexpr bool is_rms(norm_kind kind) {
  return kind != norm_kind::layernorm && kind != norm_kind::low_precision_layernorm;
}

}  // namespace mpt
