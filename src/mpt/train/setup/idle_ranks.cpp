#include <mpt/train/setup/idle_ranks.hpp>

#include <cstdint>

#include <fmt/format.h>

#include <mpt/train/setup/layout.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>

namespace mpt {

double idle_share_of_data_ranks(data_config const& data, run_plan const& plan) {
  auto const positions = data_ranks(plan.layout) * plan.split.device_batch;
  return 1 - static_cast<double>(data.global_train_batch_size) / static_cast<double>(positions);
}

double idle_share_of_pipeline(parallelism_config const& parallelism, run_plan const& plan) {
  namespace pipeline = parallel::pipeline;
  auto const& p = parallelism;
  constexpr std::int64_t large_count = 4096;  // microbatches; with more, no bubble matters
  if (p.pipeline == 1 || plan.split.accumulation > large_count) return 0;
  auto const wanted = static_cast<int>(plan.split.accumulation);
  auto const schedule = pipeline::make_schedule(
      p.schedule, p.pipeline, pipeline::least_microbatches(p.schedule, p.pipeline, wanted),
      p.stages_per_rank);
  auto const time = pipeline::simulate(schedule);
  double busy = 0;
  for (auto const& actions : schedule.by_rank)
    for (auto const& action : actions)
      if (action.microbatch < wanted)
        busy += pipeline::costs{}.time_of(action.kind);  // microbatches beyond are empty
  return 1 - busy / (static_cast<double>(time.makespan) * schedule.ranks);
}

std::vector<std::string> notes_on_idle_ranks(data_config const& data,
                                             execution_config const& execution,
                                             run_plan const& plan) {
  std::vector<std::string> out;
  std::int64_t const batch = data.global_train_batch_size;
  std::int64_t const data_rank_count = data_ranks(plan.layout);
  std::int64_t const model_ranks = plan.layout.ranks() / data_rank_count;
  std::int64_t const largest_share = plan.split.device_batch;
  if (double const idle = idle_share_of_data_ranks(data, plan); idle >= 0.02) {
    std::int64_t fewer_ranks = data_rank_count - 1;  // data ranks with equally many sequences
    std::string idle_ranks;
    std::string batches = fmt::format("{}", data_rank_count * largest_share);
    if (is_canonical(execution)) {
      fewer_ranks = (batch + largest_share - 1) / largest_share;
      auto const empty_ranks = data_rank_count - fewer_ranks;
      idle_ranks =
          empty_ranks > 0
              ? fmt::format("{} of {} data ranks have no sequence", empty_ranks, data_rank_count)
              : fmt::format("the last of {} data ranks has {} sequences", data_rank_count,
                            batch - (fewer_ranks - 1) * largest_share);
    } else {
      idle_ranks = fmt::format("{} of {} data ranks have {} sequence{}",
                               data_rank_count - batch % data_rank_count, data_rank_count,
                               largest_share - 1, largest_share == 2 ? "" : "s");
      batches = fmt::format("{} or {}", batch / data_rank_count * data_rank_count, batches);
      while (batch % fewer_ranks != 0) --fewer_ranks;
    }
    out.push_back(fmt::format(
        "{} where others have {}: {:.0f} % of the data ranks' time is spent waiting; set "
        "global_train_batch_size to {}{}",
        idle_ranks, largest_share, 100 * idle, batches,
        fewer_ranks < data_rank_count
            ? fmt::format(", or start {} ranks", fewer_ranks * model_ranks)
            : std::string()));
  }
  if (double const idle = idle_share_of_pipeline(execution.parallelism, plan); idle >= 0.2)
    out.push_back(fmt::format(
        "pipeline {} with {} microbatch{} a step: {:.0f} % of the pipeline ranks' time is spent "
        "waiting; set a smaller device_train_microbatch_size or parallelism.pipeline, or a larger "
        "global_train_batch_size",
        execution.parallelism.pipeline, plan.split.accumulation,
        plan.split.accumulation == 1 ? "" : "es", 100 * idle));
  return out;
}

}  // namespace mpt
