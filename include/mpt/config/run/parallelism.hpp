// parallelism_config: how the ranks of a run divide the model, the sequences and the batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <parallel/context_parallel/method.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/pipeline_options.hpp>

namespace mpt {

/// Degrees of the mesh's axes: tensor x context x pipeline ranks hold one model and read the same
/// sequences; the others read other sequences.
struct parallelism_config {
  int tensor = 1;
  bool sequence_parallel =
      false;  ///< tensor ranks also divide the rows between tensor-parallel layers
  int context = 1;
  parallel::context_parallel::method context_method = parallel::context_parallel::method::ring;
  int expert = 1;  ///< ranks with different data that divide the experts of each layer
  double expert_buffer =
      2;  ///< room for rows at their experts, in equal shares; 0: for any routing
  int pipeline = 1;
  std::string schedule = "1f1b";
  int stages_per_rank = 1;
  std::vector<int> blocks_by_stage = {};  ///< empty: divided evenly
  bool overlap_weight_gradients = false;  ///< see train::pipeline_options::overlap_weight_gradients
  std::optional<int> shard = {};      ///< ranks that shard one copy of the states; none: see below
  std::optional<int> replicate = {};  ///< none: the remaining ranks; see run_layout
  /// Without `shard` and `replicate`, the data ranks of one machine form a shard group; see
  /// shard_within
  bool shard_within_node = false;

  /// The degrees of the ranks that hold one model together.
  [[nodiscard]] parallel::training_layout layout_of_model() const;
  /// The number of ranks that hold one model together. Throws on overflow.
  [[nodiscard]] int ranks_of_model() const { return layout_of_model().ranks(); }
  /// The fewest ranks that these degrees need. Throws on overflow.
  [[nodiscard]] int least_ranks() const;
  [[nodiscard]] int stages() const { return pipeline * stages_per_rank; }

  /// The stepper's pipeline options; without a pipeline the schedule is not used.
  [[nodiscard]] parallel::train::pipeline_options pipeline_options() const;

  friend bool operator==(parallelism_config const&, parallelism_config const&) = default;
};

}  // namespace mpt
