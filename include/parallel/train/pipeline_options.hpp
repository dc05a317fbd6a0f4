// pipeline_options: how a model's blocks are divided into stages, and in which order their passes
// run.
#pragma once

#include <string>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::train {

struct pipeline_options {
  std::string schedule = "1f1b";
  int stages_per_rank = 1;       // of interleaved; the V schedules have 2
  std::vector<int> blocks = {};  // by stage; empty: divided evenly
  /// Weight gradients of a block run on a stream of their own, beside the input gradients of the
  /// next one, in passes that make both: for devices that a product of a small weight does not
  /// fill. Costs a second place for what a block's backward pass needs, and one activation.
  bool overlap_weight_gradients = false;
};

}  // namespace parallel::train
