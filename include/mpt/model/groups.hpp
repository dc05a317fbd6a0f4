// model_groups: the ranks that share one model, as its layers meet them. Made of nothing: one rank.
#pragma once

#include <mpt/vocabulary.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/context/attention_ranks.hpp>
#include <parallel/tensor/region.hpp>
#include <parallel/tensor/slices.hpp>

namespace mpt {

using parallel::any_communicator;

using context_ranks = parallel::context_parallel::attention_ranks<any_communicator>;

struct model_groups {
  parallel::tensor::region<any_communicator> tensor = {};
  context_ranks context = {};

  [[nodiscard]] parallel::tensor::place tensor_place() const {
    return {tensor.rank(), tensor.size()};
  }
};

}  // namespace mpt
