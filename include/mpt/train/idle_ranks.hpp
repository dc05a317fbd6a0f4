// idle_ranks: what share of the ranks' time a plan leaves without work, and what to change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/config/train.hpp>
#include <mpt/train/layout.hpp>
#include <mpt/train/run_plan.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>

namespace mpt {

/// The share of all data ranks' time that those with fewer sequences wait for the one with most.
[[nodiscard]] inline double idle_share_of_data_ranks(train_config const& config,
                                                     run_plan const& plan) {
  auto const places = data_ranks(plan.layout) * plan.split.device_batch;
  return 1 - static_cast<double>(config.global_train_batch_size) / static_cast<double>(places);
}

/// The share of pipeline ranks' time in which they wait for each other, where all blocks and parts
/// of a pass take alike: the schedule's bubble.
[[nodiscard]] inline double idle_share_of_pipeline(train_config const& config,
                                                   run_plan const& plan) {
  namespace pipeline = parallel::pipeline;
  auto const& p = config.parallelism;
  constexpr std::int64_t many = 4096;  // microbatches, beside which no bubble matters
  if (p.pipeline == 1 || plan.split.accumulation > many) return 0;
  auto const wanted = static_cast<int>(plan.split.accumulation);
  auto const of = pipeline::make_schedule(
      p.schedule, p.pipeline, pipeline::least_microbatches(p.schedule, p.pipeline, wanted),
      p.stages_per_rank);
  auto const time = pipeline::simulate(of);
  double busy = 0;
  for (auto const& actions : of.by_rank)
    for (auto const& action : actions)
      if (action.microbatch < wanted)
        busy += pipeline::costs{}.time_of(action.kind);  // others are empty
  return 1 - busy / (static_cast<double>(time.makespan) * of.ranks);
}

/// A sentence for each way in which a plan leaves ranks without work for a share of the time that
/// is worth a change.
[[nodiscard]] inline std::vector<std::string> notes_on_idle_ranks(train_config const& config,
                                                                  run_plan const& plan) {
  std::vector<std::string> out;
  std::int64_t const batch = config.global_train_batch_size;
  std::int64_t const readers = data_ranks(plan.layout);
  std::int64_t const of_model = plan.layout.ranks() / readers;
  std::int64_t const most = plan.split.device_batch;
  if (double const idle = idle_share_of_data_ranks(config, plan); idle >= 0.02) {
    std::int64_t fewer = readers - 1;  // that have as many sequences each
    std::string others;
    std::string batches = fmt::format("{}", readers * most);
    if (is_canonical(config)) {
      fewer = (batch + most - 1) / most;
      auto const without = readers - fewer;
      others = without > 0 ? fmt::format("{} of {} data ranks have no sequence", without, readers)
                           : fmt::format("the last of {} data ranks has {} sequences", readers,
                                         batch - (fewer - 1) * most);
    } else {
      others = fmt::format("{} of {} data ranks have {} sequence{}", readers - batch % readers,
                           readers, most - 1, most == 2 ? "" : "s");
      batches = fmt::format("{} or {}", batch / readers * readers, batches);
      while (batch % fewer != 0) --fewer;
    }
    out.push_back(fmt::format(
        "{} where others have {}: {:.0f} % of the data ranks' time is spent waiting; set "
        "global_train_batch_size to {}{}",
        others, most, 100 * idle, batches,
        fewer < readers ? fmt::format(", or start {} ranks", fewer * of_model) : std::string()));
  }
  if (double const idle = idle_share_of_pipeline(config, plan); idle >= 0.2)
    out.push_back(fmt::format(
        "pipeline {} with {} microbatch{} a step: {:.0f} % of the pipeline ranks' time is spent "
        "waiting; set a smaller device_train_microbatch_size or parallelism.pipeline, or a larger "
        "global_train_batch_size",
        config.parallelism.pipeline, plan.split.accumulation,
        plan.split.accumulation == 1 ? "" : "es", 100 * idle));
  return out;
}

}  // namespace mpt
