// Merges fused attention over some of the keys into attention over other keys: results and their
// lse are combined (the formula is in extend_attention.hpp), gradients are summed.
#pragma once

#include <cmath>
#include <limits>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/block.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/cuda/kernels/attention/rows_of_heads.hpp>

namespace parallel::cuda::kernels {

/// Changes out and lse over some keys to those over the part's keys as well. Where lse is
/// -infinity, out is not read. For a row that sees none of the part's keys fused attention gives an
/// lse of about -1e9, far below any sum of scores, and an undefined result.
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
      index const element = (b * out.heads + h) * out.sequence + i;
      // the lane that will write it reads it, for all lanes
      A const previous_lse = combine_warp(block, lane == 0 ? lse[element] : none, larger{});
      A const added = part_lse[element] < sees_nothing ? none : part_lse[element];
      A const greatest = larger{}(previous_lse, added);
      if (greatest == none) return;
      A const total =
          greatest + std::log(std::exp(previous_lse - greatest) + std::exp(added - greatest));
      A const weight = std::exp(added - total);
      A const previous_weight = std::exp(previous_lse - total);
      A* const y = out.row(b, i, h);
      T const* const x = part.row(b, i, h);
      for (index d = lane; d < out.head_dim; d += warp_size)
        y[d] =
            (previous_lse == none ? A(0) : previous_weight * y[d]) + weight * static_cast<A>(x[d]);
      if (lane == 0) lse[element] = total;
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
