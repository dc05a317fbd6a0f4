// pipeline_options: how a model's blocks are divided into stages, and in which order those run.
#pragma once

#include <string>
#include <vector>

namespace parallel::train {

struct pipeline_options {
  std::string schedule = "1f1b";
  int stages_per_rank = 1;       // of interleaved; the V schedules have 2
  std::vector<int> blocks = {};  // by stage; empty: divided evenly
};

}  // namespace parallel::train
