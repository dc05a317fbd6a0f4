// share: the sequences of a global batch that each data-parallel rank takes, and their
// microbatches.
//
// A global batch is an ordered list of sequences. Each rank takes a contiguous share, which is
// split into microbatches; the last microbatch may be smaller. Nothing is averaged per rank or
// microbatch: losses, counts and gradients are only summed, so uneven shares have the right
// weights.
#pragma once

#include <algorithm>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::data {

/// Sequences [begin, end) of a global batch.
struct share {
  index begin = 0;
  index end = 0;
  [[nodiscard]] constexpr index size() const { return end - begin; }
  friend bool operator==(share const&, share const&) = default;
};

/// The share of rank `rank` in `total` sequences. Sizes differ by at most one; lower ranks take
/// more.
///
///     share_of(11, 0, 3)  →  [0, 4)     4 sequences
///     share_of(11, 1, 3)  →  [4, 8)     4 sequences
///     share_of(11, 2, 3)  →  [8, 11)    3 sequences
[[nodiscard]] constexpr share share_of(index total, index rank, index ranks) {
  require(total >= 0 && ranks > 0, "a share of ", total, " sequences over ", ranks,
          " ranks; there must be 0 sequences or more, and 1 rank or more");
  index const base = total / ranks;
  index const extra = total % ranks;
  index const begin = rank * base + std::min(rank, extra);
  return {begin, begin + base + (rank < extra ? 1 : 0)};
}

/// Splits a share into microbatches of `size` sequences; the last one takes the rest:
/// `microbatches({0, 4}, 3)` gives [0, 3) and [3, 4).
[[nodiscard]] inline std::vector<share> microbatches(share whole, index size) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  std::vector<share> out;
  for (index begin = whole.begin; begin < whole.end; begin += size)
    out.push_back({begin, std::min(begin + size, whole.end)});
  return out;
}

/// The share of rank `rank` in `total` sequences with microbatches of `size`, for sums in the order
/// of the canonical tree. All ranks have the same number of microbatches, a power of two, except
/// that the last non-empty share may be smaller and later ones are empty. So the tree over ranks
/// continues the trees within the ranks. The shares are less even than those of share_of.
///
///     aligned_share_of(9, 1, 0, 3)  →  [0, 4)     4 microbatches
///     aligned_share_of(9, 1, 1, 3)  →  [4, 8)     4 microbatches
///     aligned_share_of(9, 1, 2, 3)  →  [8, 9)     1 microbatch
[[nodiscard]] constexpr share aligned_share_of(index total, index size, index rank, index ranks) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  index const leaves = (total + size - 1) / size;
  index leaves_per_rank = 1;
  while (leaves_per_rank * ranks < leaves) leaves_per_rank *= 2;
  return {std::min(rank * leaves_per_rank * size, total),
          std::min((rank + 1) * leaves_per_rank * size, total)};
}

/// The largest number of microbatches of `size` sequences in any rank's share of `total`, which is
/// that of the first rank: `max_microbatches(11, 3, 2)` is 2.
[[nodiscard]] constexpr index max_microbatches(index total, index ranks, index size) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  return (share_of(total, 0, ranks).size() + size - 1) / size;
}

}  // namespace parallel::data
