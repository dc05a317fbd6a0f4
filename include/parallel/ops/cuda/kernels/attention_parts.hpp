// What fused attention over some of the keys adds to that over others: results and their lse are
// merged (the formula stands in extend_attention.hpp), gradients are summed.
#pragma once

#include <cmath>
#include <limits>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/block.hpp>
#include <parallel/ops/cuda/kernels/rows_of_heads.hpp>
#include <parallel/ops/heads_view.hpp>

namespace parallel::cuda::kernels {

/// out and lse over some keys become those over the part's as well. Where lse is -infinity, out is
/// not read. Of a row that sees none of the part's keys fused attention gives an lse about -1e9,
/// which no sum of scores comes near, and a result that means nothing.
template <class T>
struct merge_attention_part {
  using A = accumulate_t<T>;
  static constexpr A none = -std::numeric_limits<A>::infinity();
  static constexpr A sees_nothing = A(-5e8);
  ops::heads_view<A> out;
  A* lse;                         // [B, H, Sq]
  ops::heads_view<T const> part;  // like out
  A const* part_lse;              // [B, H, Sq]

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    for_each_row_of_heads(block, out, [&](index b, index i, index h, unsigned lane) {
      index const at = (b * out.heads + h) * out.sequence + i;
      // by the lane that will write it, for all
      A const before = combine_warp(block, lane == 0 ? lse[at] : none, larger{});
      A const added = part_lse[at] < sees_nothing ? none : part_lse[at];
      A const greatest = larger{}(before, added);
      if (greatest == none) return;
      A const total = greatest + std::log(std::exp(before - greatest) + std::exp(added - greatest));
      A const weight = std::exp(added - total);
      A const kept = std::exp(before - total);
      A* const y = out.row(b, i, h);
      T const* const x = part.row(b, i, h);
      for (index d = lane; d < out.head_dim; d += warp_size)
        y[d] = (before == none ? A(0) : kept * y[d]) + weight * static_cast<A>(x[d]);
      if (lane == 0) lse[at] = total;
    });
  }
};

/// sum += addend, element by element.
template <class T>
struct add_attention_part {
  using A = accumulate_t<T>;
  ops::heads_view<A> sum;
  ops::heads_view<T const> addend;  // like sum

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    for_each_row_of_heads(block, sum, [&](index b, index i, index h, unsigned lane) {
      A* const y = sum.row(b, i, h);
      T const* const x = addend.row(b, i, h);
      for (index d = lane; d < sum.head_dim; d += warp_size) y[d] += static_cast<A>(x[d]);
    });
  }
};

}  // namespace parallel::cuda::kernels
