// Step plans of all ranks of a pipeline, for a model with tied embeddings, for tests that look only
// at the plans.
#pragma once

#include <string>
#include <vector>

#include <parallel/pipeline/assign.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/train/step/lower_step.hpp>

namespace test {

struct planned_step {
  std::string schedule = "1f1b";
  int ranks = 2;
  int microbatches = 4;
  int stages_per_rank = 1;
  int blocks = 0;  // 0: two for each stage
  int zero = 3;    // the ZeRO level
  int data = 2;    // ranks over which ZeRO divides
  bool tied = true;
  bool reduce_every_microbatch = true;
  bool whole_tensors = false;  // optimizers need them
  parallel::train::step_choices choices = {.bucket_bytes = 100};

  [[nodiscard]] std::vector<parallel::train::step_plan> plans() const {
    namespace pipeline = parallel::pipeline;
    namespace train = parallel::train;
    bool const is_training = choices.mode == parallel::pass::training;
    auto pipeline_schedule = pipeline::make_schedule(
        schedule, ranks, is_training ? microbatches : 2 * ranks, stages_per_rank);
    if (!is_training) pipeline_schedule = pipeline::forward_only(pipeline_schedule, microbatches);
    int const block_count = blocks > 0 ? blocks : 2 * pipeline_schedule.stages();
    auto const assigned = pipeline::assign_blocks(pipeline_schedule, block_count);
    std::vector<train::step_plan> out;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<train::stage_range> stages;
      for (int chunk = 0; chunk < pipeline_schedule.stages_per_rank; ++chunk) {
        auto const& s = assigned[static_cast<std::size_t>(pipeline_schedule.stage_of(rank, chunk))];
        stages.push_back({s.begin, s.end, s.entry, s.exit});
      }
      out.push_back(train::lower_step(pipeline::lower(pipeline_schedule, rank), stages,
                                      units(stages, block_count), choices));
    }
    return out;
  }

 private:
  using range = parallel::train::stage_range;

  [[nodiscard]] std::vector<parallel::train::planned_unit> units(std::vector<range> const& stages,
                                                                 parallel::index last) const {
    std::vector<parallel::train::planned_unit> out;
    int number = 0;
    auto const add = [&](std::string name, std::vector<parallel::train::part> const& parts,
                         parallel::index size) {
      parallel::train::planned_unit unit{.name = std::move(name), .number = number++};
      for (auto const part : parts)
        for (auto const& stage : stages)
          if (stage.holds(part)) unit.parts.push_back(part);
      if (unit.parts.empty()) return;
      bool const is_divided = data > 1;
      if (is_divided && zero >= 3) unit.values = size;
      if (is_divided && zero >= 2 && !choices.canonical_tree && reduce_every_microbatch)
        unit.gradients = size;
      unit.gradient_bytes = static_cast<std::size_t>(4 * size);
      unit.is_gathered = is_divided && (zero == 1 || zero == 2);
      unit.is_joined = unit.parts.size() > 1 && !choices.canonical_tree;
      unit.is_tied = unit.parts.size() < parts.size();
      unit.exchanges_update = whole_tensors && number % 3 > 0;
      out.push_back(std::move(unit));
    };
    if (tied)
      add("tokens", {parallel::train::embed, last}, 30);
    else
      add("tokens", {parallel::train::embed}, 30);
    for (parallel::index b = 0; b < last; ++b) add(parallel::concat("block.", b), {b}, 20);
    add("norm", {last}, 4);
    if (!tied) add("head", {last}, 30);
    return out;
  }
};

}  // namespace test
