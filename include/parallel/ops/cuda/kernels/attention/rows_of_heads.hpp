// Kernels that use one warp for each row of a heads_view: the head_dim elements of one sequence,
// position and head.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/device/cuda/block.hpp>
#include <parallel/ops/attention/heads_view.hpp>

namespace parallel::cuda::kernels {

/// The number of blocks with `threads` threads for such a kernel; warps process further rows if
/// there are more.
template <class T>
[[nodiscard]] std::size_t blocks_for_rows_of_heads(ops::heads_view<T> const& view,
                                                   std::size_t threads) {
  std::size_t const rows_of_block = threads / warp_size;
  auto const rows = static_cast<std::size_t>(view.batch * view.heads * view.sequence);
  return std::min<std::size_t>((rows + rows_of_block - 1) / rows_of_block, 65536);
}

/// Calls f(sequence, position, head, lane) for the rows of a view. Neighbouring rows in memory are
/// heads of a position.
template <class T, class Block, class F>
PARALLELLM_DEVICE void for_each_row_of_heads(Block const& block, ops::heads_view<T> const& view,
                                             F const& f) {
  index const warps = block.threads() / warp_size;
  index const count = view.batch * view.heads * view.sequence;
  for (index row = block.block() * warps + block.thread() / warp_size; row < count;
       row += block.blocks() * warps)
    f(row / (view.heads * view.sequence), row / view.heads % view.sequence, row % view.heads,
      block.thread() % warp_size);
}

}  // namespace parallel::cuda::kernels
