// expert_ranks: the ranks among which the rows and experts of a mixture are divided.
//
// Each of p ranks has an equal part of the experts, and other rows. A rank sends each of them a
// block of row copies, of equal size whatever the routing, so that nobody waits for counts; the
// counts travel with the rows. For n rows a rank and top_k choices a block has n top_k / p places
// times `buffer`, or as many as could ever be needed. Bytes sent by a layer and microbatch for
// blocks of B rows of width d, in elements of b bytes: forward 2 (p-1) B d b, and 4 (p-1) E/p of
// counts; backward 2 (p-1) B d b.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>

namespace parallel::tensor {

/// Twice the room of `buffer` (expert_ranks::buffer) among `ranks` ranks, or 0 for all that could
/// come.
[[nodiscard]] inline double grown_buffer(double buffer, int ranks) {
  return 2 * buffer < ranks ? 2 * buffer : 0.0;
}

template <class Comm>
struct expert_ranks {
  axis_group<axis::context, Comm> context;  ///< they hold other rows of the same sequences
  axis_group<axis::expert, Comm> experts;   ///< they hold other experts, and other rows
  /// The room for copies of rows, as a multiple of an equal division; null or 0: for all that could
  /// come.
  double const* buffer = nullptr;

  /// As single_expert_rank::add_over_rows.
  template <class Stream, class A>
  void add_over_rows(Stream& compute, std::span<A> counts) const {
    if (!context.is_single_rank()) context.all_reduce(compute, counts);
  }

  [[nodiscard]] int size() const { return experts.size(); }

  /// As single_expert_rank::block_rows.
  [[nodiscard]] index block_rows(index rows, index top_k, index expert_count) const {
    index const ranks = size();
    index const largest = rows * std::min(top_k, expert_count / ranks);
    if (buffer == nullptr || *buffer == 0.0) return largest;
    double const mean = static_cast<double>(rows * top_k) / static_cast<double>(ranks);
    return std::min(largest, static_cast<index>(std::ceil(*buffer * mean)));
  }

  /// As single_expert_rank::exchange.
  template <class Stream, class T>
  void exchange(Stream& compute, std::span<T> out, std::span<T const> in) const {
    experts.all_to_all(compute, out, in);
  }
};

}  // namespace parallel::tensor
