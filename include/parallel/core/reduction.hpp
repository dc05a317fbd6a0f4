// reduction: how the ranks' values are combined.
//
// Every backend but NCCL combines in rank order, ((x0 + x1) + x2) + ..., each element by itself, so
// that the bits of a result depend on the number of ranks but not on the backend, the chunking or
// timing, and sums of bf16 are kept in float and rounded once.
//
// NCCL promises less of a `sum` of floats: it adds in an order of its own, which may depend on the
// count and on how GPUs are connected, and may round at every addition, to bf16 too. A result is
// within (n - 1) u (|x0| + |x1| + ...) of the sum of n ranks, with u = 2^-8 for bf16 and 2^-24 for
// float, and an all_reduce gives the same bits on all ranks. Integers, `max`, `min` and the sums
// below are what every backend makes them.
//
// `tree_sum` combines by an aligned binary tree, ((x0 + x1) + (x2 + x3)) + ..., and rounds at each
// of its nodes, so that a node has the same bits wherever it is computed (parallelism.md of the
// references, 3.9). `wide_sum` is a sum in rank order, written in the type that sums are kept in:
// bf16 goes in, float comes out, and nothing is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <parallel/core/dtype.hpp>

namespace parallel {

/// Integers wrap around in sums. A NaN on any rank makes `max` and `min` NaN.
enum class reduction : std::uint8_t { sum, max, min, tree_sum, wide_sum };

[[nodiscard]] constexpr std::string_view name_of(reduction combine) {
  constexpr std::string_view names[] = {"sum", "max", "min", "tree_sum", "wide_sum"};
  return names[static_cast<std::size_t>(combine)];
}

/// The type of what is written where elements of `type` are combined.
[[nodiscard]] constexpr dtype result_type(dtype type, reduction combine) {
  return combine == reduction::wide_sum && type == dtype::bf16 ? dtype::f32 : type;
}

}  // namespace parallel
