// step_request: what one rank is asked to do in a step. It passes as one value from the loop over
// batches to the step's plan.
#pragma once

#include <span>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>

namespace parallel::train {

template <class Microbatch>
struct step_request {
  std::span<Microbatch const> microbatches;  ///< of this rank; those without rows come last
  /// The position of each microbatch's first sequence in the global batch; an evaluation needs
  /// none.
  std::span<index const> first_sequences = {};
  /// `step`: the number of finished steps.
  parallel::position position = {};
  double learning_rate_factor = 1;  ///< the schedule's multiplier; 0: parameters do not change
};

/// Throws unless every microbatch of a step has a position in the global batch.
template <class Microbatch>
void require_first_sequences(step_request<Microbatch> const& request) {
  require(request.microbatches.size() == request.first_sequences.size(), "a step of ",
          request.microbatches.size(), " microbatches is given ", request.first_sequences.size(),
          " first_sequences; give the number that the first sequence of each has in the global "
          "batch, and any of those without rows");
}

}  // namespace parallel::train
