// model_groups: the groups of ranks that share one model, in the form that its layers take. The
// default is a single rank.
#pragma once

#include <mpt/vocabulary.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/context_parallel/attention_ranks.hpp>
#include <parallel/tensor/region.hpp>
#include <parallel/tensor/slices.hpp>

namespace mpt {

using parallel::any_communicator;

/// The ranks that share a model, along the tensor, the context and the expert axis.
template <class Comm>
struct basic_model_groups {
  parallel::tensor::region<Comm> tensor = {};
  parallel::context_parallel::attention_ranks<Comm> context = {};
  /// The ranks with other data that hold other experts.
  parallel::axis_group<parallel::axis::expert, Comm> experts = {};
  double expert_buffer = 0;  ///< tensor::expert_ranks::buffer

  [[nodiscard]] parallel::tensor::axis_position tensor_position() const {
    return {tensor.rank(), tensor.size()};
  }
};

using model_groups = basic_model_groups<any_communicator>;
/// The ranks along the context axis.
using context_ranks = decltype(model_groups::context);

}  // namespace mpt
