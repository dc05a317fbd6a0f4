// attention_ranks: the ranks that hold other parts of the same sequences, and the method by which
// they attend together. The default is a single rank.
#pragma once

#include <parallel/context_parallel/method.hpp>
#include <parallel/context_parallel/ring.hpp>
#include <parallel/context_parallel/sequence_partition.hpp>

namespace parallel::context_parallel {

template <class Comm>
struct attention_ranks {
  context_parallel::group<Comm> group = {};
  context_parallel::method method = context_parallel::method::ring;

  [[nodiscard]] bool is_single_rank() const { return group.is_single_rank(); }
  [[nodiscard]] bool exchange_heads() const {
    return !is_single_rank() && method == context_parallel::method::ulysses;
  }
  /// This rank's part of each sequence, of which it holds `length` rows.
  [[nodiscard]] context_parallel::sequence_partition partition(index length) const {
    return {group.rank(), group.size(), length * group.size()};
  }
};

}  // namespace parallel::context_parallel
