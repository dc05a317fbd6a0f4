// reduction: how the values of ranks are combined.
//
// Every backend except NCCL combines in rank order, ((x0 + x1) + x2) + ..., element by element. The
// bits of a result depend on the number of ranks, but not on the backend, the chunking or timing.
// Sums of bf16 accumulate in float and are rounded once.
//
// NCCL promises less for a `sum` of floats: it adds in its own order, which may depend on the count
// and on the links between GPUs, and may round at every addition, for bf16 to bf16. A result is
// within (n - 1) u (|x0| + |x1| + ...) of the exact sum of n ranks, with u = 2^-8 for bf16 and
// 2^-24 for float, and an all_reduce gives the same bits on all ranks. For integers, `max`, `min`,
// `tree_sum` and `wide_sum` all backends give the same bits.
//
// `tree_sum` combines by an aligned binary tree, ((x0 + x1) + (x2 + x3)) + ..., and rounds at each
// node, so that a node has the same bits wherever it is computed (parallelism.md of the references,
// 3.9). `wide_sum` is a sum in rank order whose result has the type of the accumulation: the
// operands are bf16, the result is float, and it is not rounded to bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <parallel/core/dtype.hpp>

namespace parallel {

/// Integers wrap around in sums. A NaN on any rank makes `max` and `min` NaN.
enum class reduction : std::uint8_t { sum, max, min, tree_sum, wide_sum };

[[nodiscard]] constexpr std::string_view to_string(reduction combine) {
  constexpr std::string_view names[] = {"sum", "max", "min", "tree_sum", "wide_sum"};
  return names[static_cast<std::size_t>(combine)];
}

/// The element type of the result when elements of `type` are combined.
[[nodiscard]] constexpr dtype result_type(dtype type, reduction combine) {
  return combine == reduction::wide_sum && type == dtype::bf16 ? dtype::f32 : type;
}

}  // namespace parallel
