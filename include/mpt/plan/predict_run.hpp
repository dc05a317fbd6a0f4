// predict_run: the time of a training step on a cluster, simulated from the plans of the step that
// the run itself would execute.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/setup/plan_run.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/cluster/cluster.hpp>
#include <parallel/predict/step_costs.hpp>
#include <parallel/predict/step_split.hpp>

namespace mpt {

namespace cluster = parallel::cluster;
namespace predict = parallel::predict;

/// A step as it is expected to run.
struct prediction {
  double seconds = 0;            ///< of a step
  double tokens_per_second = 0;  ///< of all ranks
  double utilisation = 0;        ///< MFU as metrics.hpp defines it
  int busiest_rank = 0;          ///< the pipeline rank that computes the longest
  predict::step_split split{};   ///< of that rank
  double exchange_seconds = 0;  ///< of that rank's exchanges of values and gradients, hidden or not
  /// Seconds of that rank's passes, by operation
  std::map<std::string, double> by_operation{};
};

/// Predicts the steps of a planned run. `T`: the elements of the model; it must be those of the
/// plan.
template <class T>
[[nodiscard]] prediction predict_run(train_config const& config, run_plan const& plan,
                                     cluster::cluster const& machines);

namespace detail {

/// The times of all passes of the stages of a pipeline.
template <class T>
[[nodiscard]] predict::pass_times times_of_passes(train_config const& config, run_plan const& plan,
                                                  cluster::cluster const& machines,
                                                  predict::axis_places const& places) {
  auto const& parallelism = config.execution.parallelism;
  model<T> const net(config.model, planned_groups(parallelism), plan.recompute);
  auto const shape = sequences::shape_of(
      plan.split.microbatch, config.data.train_loader.max_seq_len / parallelism.context);
  predict::work_by_pass work;
  for (int rank = 0; rank < parallelism.pipeline; ++rank) {
    auto const stages = stages_of(config.model, parallelism, rank);
    for (auto const& range : stages.ranges()) predict::add_work(work, net, range, shape);
  }
  predict::pass_times out;
  for (auto const& [key, items] : work) out.emplace(key, time_of(items, machines, places));
  return out;
}

template <class T>
[[nodiscard]] predict::step_sizes sizes_of(train_config const& config, run_plan const& plan) {
  auto const& parallelism = config.execution.parallelism;
  double const rows = static_cast<double>(plan.split.microbatch) *
                      static_cast<double>(config.data.train_loader.max_seq_len) /
                      parallelism.context /
                      (parallelism.sequence_parallel ? parallelism.tensor : 1);
  return {.place = train::place_in(plan.layout, level_of(config.execution)),
          .value_bytes = sizeof(T),
          .gradient_bytes = sizeof(parallel::accumulate_t<T>),
          .sent_bytes = config.execution.reduce_dtype == parallel::zero::reduce_dtype::bf16
                            ? 2
                            : static_cast<double>(sizeof(parallel::accumulate_t<T>)),
          .boundary_bytes = rows * static_cast<double>(config.model.d_model) * sizeof(T)};
}

/// Adds the seconds of the passes of a rank's step by operation.
void add_operations(prediction& out, train::step_plan const& plan,
                    predict::pass_times const& passes);

}  // namespace detail

template <class T>
prediction predict_run(train_config const& config, run_plan const& plan,
                       cluster::cluster const& machines) {
  predict::axis_places const places(machines, plan.layout);
  auto const passes = detail::times_of_passes<T>(config, plan, machines, places);
  auto const steps =
      step_plans_of<T>(config.model, config.optimizer, config.execution, config.run, plan, false);
  auto const sizes = detail::sizes_of<T>(config, plan);
  std::vector<predict::step_costs> costs;
  for (std::size_t rank = 0; rank < steps.size(); ++rank)
    costs.emplace_back(machines, places, sizes, steps[rank], plan.by_pipeline_rank[rank], passes);
  auto const simulated = predict::simulate_step(
      steps, [&](std::size_t rank, train::action const& a) { return costs[rank](a); });
  prediction out{.seconds = simulated.seconds};
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    auto const split =
        predict::split_of(steps[rank], simulated.actions[rank], simulated.seconds, passes);
    if (rank > 0 && split.passes <= out.split.passes) continue;
    out.split = split;
    out.busiest_rank = static_cast<int>(rank);
  }
  auto const busiest = static_cast<std::size_t>(out.busiest_rank);
  for (std::size_t i = 0; i < steps[busiest].actions.size(); ++i) {
    auto const& times = simulated.actions[busiest][i];
    if (is_collective(steps[busiest].actions[i].kind))
      out.exchange_seconds += times.end - times.begin;
  }
  out.seconds += machines.program.exposed_exchanges * out.exchange_seconds;
  detail::add_operations(out, steps[busiest], passes);
  out.tokens_per_second = static_cast<double>(config.data.global_train_batch_size) *
                          static_cast<double>(config.data.train_loader.max_seq_len) / out.seconds;
  double const peak = machines.device.peak * plan.layout.ranks();
  out.utilisation =
      utilisation_of(config.model, config.data, plan, peak).mfu(out.tokens_per_second);
  return out;
}

}  // namespace mpt
