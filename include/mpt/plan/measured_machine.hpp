// measured_machine: the rates of a rank's device, from the times of the operations of its steps.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <mpt/plan/predict_run.hpp>
#include <parallel/cluster/calibrate.hpp>
#include <parallel/device/host/trace.hpp>
#include <parallel/predict/paired_operations.hpp>

namespace mpt {

namespace detail {

/// Bytes a second of all measured operations on elements together.
[[nodiscard]] inline double mean_rate(std::span<cluster::measured_operation const> measured) {
  double bytes = 0, seconds = 0;
  for (auto const& [work, spent] : measured) {
    if (work.kind != cluster::operation_kind::memory) continue;
    bytes += work.bytes;
    seconds += spent;
  }
  parallel::require(seconds > 0, "measure: no operation of the run was timed");
  return bytes / seconds;
}

/// Adds the rates of operations that were measured beside the passes: clearing and measuring
/// gradients, and the optimizer's, which together move `bytes` in a step.
inline void calibrate_updates(cluster::processor& device, predict::paired_tasks const& tasks,
                              double bytes) {
  double seconds = 0;
  for (auto const& [name, spent] : tasks.unplanned)
    if (name != "wait") seconds += spent;
  if (seconds > 0 && bytes > 0) device.operations["update"].set(bytes, bytes / seconds);
}

}  // namespace detail

/// Adds to the rates of `machines`' device what the first rank of a run's pipeline has measured:
/// `tasks` of its compute stream in `steps` steps.
template <class T>
void calibrate(cluster::cluster& machines, train_config const& config, run_plan const& plan,
               std::span<host::timed_task const> tasks, std::size_t steps) {
  auto const plans =
      step_plans_of<T>(config.model, config.optimizer, config.execution, config.run, plan, false);
  auto const work = detail::work_of_passes<T>(config, plan, detail::shape_of_step(config, plan));
  auto const paired =
      predict::pair_tasks(predict::operations_of(plans.front(), work), tasks, steps);
  auto& device = machines.device;
  cluster::calibrate(device, paired.operations);
  predict::axis_places const places(machines, plan.layout);
  predict::pass_times const none;
  predict::step_costs const costs(
      machines, places, detail::sizes_of<T>(config, plan, detail::shape_of_step(config, plan)),
      plans.front(), plan.by_pipeline_rank.front(), none);
  detail::calibrate_updates(device, paired, costs.moved_bytes());
  device.gap = paired.gap;
  device.memory_rate = detail::mean_rate(paired.operations);
}

}  // namespace mpt
