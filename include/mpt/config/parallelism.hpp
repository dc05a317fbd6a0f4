// parallelism_config: how the ranks of a run divide model, sequences and batch among them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <parallel/context/method.hpp>
#include <parallel/train/pipeline_options.hpp>

namespace mpt {

/// Degrees of the mesh's axes: tensor x context x pipeline ranks hold one model and read the same
/// sequences; the others read other sequences.
struct parallelism_config {
  int tensor = 1;
  bool sequence_parallel = false;  ///< rows between the divided layers are shared out, too
  int context = 1;
  parallel::context_parallel::method context_method = parallel::context_parallel::method::ring;
  int pipeline = 1;
  std::string schedule = "1f1b";
  int stages_per_rank = 1;
  std::vector<int> blocks_by_stage = {};  ///< empty: divided evenly
  bool overlap_weight_gradients = false;  ///< see train::pipeline_options::weights_beside
  std::optional<int> shard = {};      ///< ranks that share one copy of the states; none: see below
  std::optional<int> replicate = {};  ///< none: what is left; see run_layout

  /// Ranks that hold one model together.
  [[nodiscard]] int ranks_of_model() const { return tensor * context * pipeline; }
  /// The fewest ranks that these degrees ask for.
  [[nodiscard]] int least_ranks() const {
    return ranks_of_model() * shard.value_or(1) * replicate.value_or(1);
  }
  [[nodiscard]] int stages() const { return pipeline * stages_per_rank; }

  /// As the stepper takes it; without a pipeline the schedule plays no part.
  [[nodiscard]] parallel::train::pipeline_options pipeline_options() const {
    if (pipeline == 1) return {.weights_beside = overlap_weight_gradients};
    return {.schedule = schedule,
            .stages_per_rank = stages_per_rank,
            .blocks = blocks_by_stage,
            .weights_beside = overlap_weight_gradients};
  }
};

}  // namespace mpt
