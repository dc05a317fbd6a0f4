// pipeline_options: how a model's blocks are divided into stages, and the order in which their
// passes run.
#pragma once

#include <string>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::train {

struct pipeline_options {
  std::string schedule = "1f1b";
  int stages_per_rank = 1;       ///< for the schedule interleaved; the V schedules have 2
  std::vector<int> blocks = {};  ///< by stage; empty: divided evenly
  /// Weight gradients of a block run on a separate stream, concurrently with the input gradients of
  /// the next block, in passes that compute both: for devices that a product of a small weight does
  /// not fill. It costs a second scratch arena for blocks' backward passes, and one activation.
  bool overlap_weight_gradients = false;
};

}  // namespace parallel::train
