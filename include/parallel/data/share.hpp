// Data parallelism: which sequences of a global batch a rank takes, and in which microbatches.
//
// A global batch is an ordered list of sequences. Rank r takes a contiguous share; a share is cut
// into microbatches, the last of which may be smaller. Nothing is averaged per rank or microbatch:
// losses, counts and gradients are only summed, so uneven shares weigh right by themselves.
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

/// Rank `rank`'s share of `total` sequences: sizes differ by one at most, lower ranks take more.
[[nodiscard]] constexpr share share_of(index total, index rank, index ranks) {
  require(total >= 0 && ranks > 0, "a share of ", total, " sequences over ", ranks,
          " ranks; there must be 0 sequences or more, and 1 rank or more");
  index const base = total / ranks;
  index const extra = total % ranks;
  index const begin = rank * base + std::min(rank, extra);
  return {begin, begin + base + (rank < extra ? 1 : 0)};
}

/// Cuts a share into microbatches of `size` sequences; the last one takes the rest.
[[nodiscard]] inline std::vector<share> microbatches(share whole, index size) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  std::vector<share> out;
  for (index begin = whole.begin; begin < whole.end; begin += size)
    out.push_back({begin, std::min(begin + size, whole.end)});
  return out;
}

/// Rank `rank`'s share of `total` sequences in microbatches of `size`, for sums in the order of the
/// canonical tree: every rank but the last that has some holds the same power of two of
/// microbatches, so the tree over ranks goes on where a rank's own ends. Less even than share_of.
[[nodiscard]] constexpr share aligned_share_of(index total, index size, index rank, index ranks) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  index const leaves = (total + size - 1) / size;
  index most = 1;
  while (most * ranks < leaves) most *= 2;
  return {std::min(rank * most * size, total), std::min((rank + 1) * most * size, total)};
}

/// The most microbatches of `size` sequences that a rank's share of `total` has; the first rank's.
[[nodiscard]] constexpr index most_microbatches(index total, index ranks, index size) {
  require(size > 0, "a microbatch must hold at least one sequence, got ", size);
  return (share_of(total, 0, ranks).size() + size - 1) / size;
}

}  // namespace parallel::data
