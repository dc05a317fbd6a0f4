// model_groups: the ranks that share one model, as its layers meet them. Made of nothing: one rank.
#pragma once

#include <mpt/vocabulary.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/context/division.hpp>
#include <parallel/context/method.hpp>
#include <parallel/context/ring.hpp>
#include <parallel/tensor/region.hpp>
#include <parallel/tensor/slices.hpp>

namespace mpt {

using parallel::any_communicator;

/// Those that hold other parts of the same sequences, and how they attend together.
struct context_ranks {
  parallel::context_parallel::group<any_communicator> group = {};
  parallel::context_parallel::method method = parallel::context_parallel::method::ring;

  [[nodiscard]] bool alone() const { return group.alone(); }
  [[nodiscard]] bool exchange_heads() const {
    return !alone() && method == parallel::context_parallel::method::ulysses;
  }
  /// The part of each sequence that is here, from its length here.
  [[nodiscard]] parallel::context_parallel::division division(index length) const {
    return {group.rank(), group.size(), length * group.size()};
  }
};

struct model_groups {
  parallel::tensor::region<any_communicator> tensor = {};
  context_ranks context = {};

  [[nodiscard]] parallel::tensor::place tensor_place() const {
    return {tensor.rank(), tensor.size()};
  }
};

}  // namespace mpt
