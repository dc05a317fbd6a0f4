// operation_work: what one operation asks of a device: its arithmetic, the bytes that it reads and
// writes, and, for products and attention, the shape that decides how fast it is.
#pragma once

#include <cstdint>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel::cluster {

/// What limits an operation.
enum class operation_kind : std::uint8_t {
  memory,              // its bytes: every operation of rows or elements
  product,             // its arithmetic: C [m, n] = A [m, k] B [k, n]
  attention_forward,   // fused attention
  attention_backward,  // the gradients of fused attention
};

struct operation_work {
  std::string_view name = {};  ///< as in profiles
  operation_kind kind = operation_kind::memory;
  double flops = 0;          ///< floating-point operations
  double bytes = 0;          ///< read and written
  double element_bytes = 0;  ///< of an operand of a product or of attention
  double rows = 0;           ///< m of a product; rows of queries times heads of attention
  double columns = 0;        ///< n of a product; 0 for attention
  double depth = 0;          ///< k of a product; the width of a head of attention
};

/// The keys that a query of attention sees on average. Attention has two products forward and five
/// backward over them: 4 or 10 operations for each key and each element of a head.
[[nodiscard]] constexpr double keys_of(operation_work const& work) {
  bool const forward = work.kind == operation_kind::attention_forward;
  return work.flops / ((forward ? 4 : 10) * work.rows * work.depth);
}

}  // namespace parallel::cluster
