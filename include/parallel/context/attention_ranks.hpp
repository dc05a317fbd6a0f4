// attention_ranks: those that hold other parts of the same sequences, and how they attend together.
// Made of nothing: one rank.
#pragma once

#include <parallel/context/method.hpp>
#include <parallel/context/ring.hpp>
#include <parallel/context/sequence_partition.hpp>

namespace parallel::context_parallel {

template <class Comm>
struct attention_ranks {
  context_parallel::group<Comm> group = {};
  context_parallel::method method = context_parallel::method::ring;

  [[nodiscard]] bool is_single_rank() const { return group.is_single_rank(); }
  [[nodiscard]] bool exchange_heads() const {
    return !is_single_rank() && method == context_parallel::method::ulysses;
  }
  /// The part of each sequence that is here, from its length here.
  [[nodiscard]] context_parallel::sequence_partition partition(index length) const {
    return {group.rank(), group.size(), length * group.size()};
  }
};

}  // namespace parallel::context_parallel
