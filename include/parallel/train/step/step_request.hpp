// step_request: what one rank is asked to do in a step. It passes as one value from the loop over
// batches to the step's plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>

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

/// Throws unless every microbatch of a step has a position in the global batch, after the sequences
/// of the microbatch before it.
template <class Model>
void require_first_sequences(Model const& model,
                             step_request<typename Model::microbatch> const& request) {
  auto const& [batches, first] = std::tie(request.microbatches, request.first_sequences);
  require(batches.size() == first.size(), "a step of ", batches.size(), " microbatches is given ",
          first.size(),
          " first_sequences; give the number that the first sequence of each has in the global "
          "batch, and any of those without rows");
  for (std::size_t i = 0; i < batches.size(); ++i) {
    index const rows = model.rows(batches[i]);
    if (rows == 0) continue;
    require(first[i] >= 0, "first_sequences[", i, "] is ", first[i],
            "; the sequences of a global batch are counted from 0");
    if (i + 1 == batches.size() || first[i + 1] < first[i] || model.rows(batches[i + 1]) == 0)
      continue;
    index const sequences = rows / std::max<index>(1, model.sequence(batches[i]));
    require(first[i + 1] - first[i] >= sequences, "microbatch ", i, " holds sequences ", first[i],
            " to ", first[i] + sequences - 1, " of the global batch, and microbatch ", i + 1,
            " begins with ", first[i + 1],
            "; give the place of each in first_sequences, and in a microbatch the rows of this "
            "rank alone (context_parallel::sequence_partition)");
  }
}

}  // namespace parallel::train
