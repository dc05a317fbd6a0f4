// paired_operations: the operations of a step's passes with the times of the tasks that ran them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <parallel/cluster/calibrate.hpp>
#include <parallel/cluster/operation_work.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/device/host/trace.hpp>
#include <parallel/predict/pass_work.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::predict {

/// The operations of the passes on a rank's compute stream in a step, in their order.
[[nodiscard]] inline std::vector<cluster::operation_work> operations_of(
    train::step_plan const& plan, work_by_pass const& passes) {
  std::vector<cluster::operation_work> out;
  for (auto const& a : plan.actions) {
    if (a.kind != train::action_kind::pass || a.lane != train::lane::compute) continue;
    auto const found = passes.find({a.pass, a.model_part});
    if (found == passes.end()) continue;
    for (auto const& item : found->second)
      if (auto const* const operation = std::get_if<cluster::operation_work>(&item))
        out.push_back(*operation);
  }
  return out;
}

/// The seconds of a task.
[[nodiscard]] inline double seconds_of(host::timed_task const& task) {
  return std::chrono::duration<double>(task.end - task.begin).count();
}

/// The tasks of a compute stream, divided by what they are for.
struct paired_tasks {
  std::vector<cluster::measured_operation> operations;  ///< of the passes: the mean of the steps
  std::map<std::string_view, double> unplanned;  ///< seconds of a step in all other tasks, by name
  double gap = 0;  ///< seconds between a task and the next one, in the median
};

/// Pairs the tasks of `steps` steps with the operations of one: the n-th task of a name in a step
/// runs the n-th operation of that name. Operations of which there are more or fewer tasks, as
/// where something else has used the stream, are left out.
[[nodiscard]] inline paired_tasks pair_tasks(std::span<cluster::operation_work const> operations,
                                             std::span<host::timed_task const> tasks,
                                             std::size_t steps) {
  paired_tasks out;
  std::map<std::string_view, std::vector<double>> seconds;
  std::vector<double> gaps;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    auto const name = tasks[i].label.name;
    seconds[name.substr(0, name.find('<'))].push_back(seconds_of(tasks[i]));
    if (i > 0)
      gaps.push_back(std::chrono::duration<double>(tasks[i].begin - tasks[i - 1].end).count());
  }
  if (!gaps.empty()) {
    auto const middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
    std::ranges::nth_element(gaps, middle);
    out.gap = std::max(0.0, *middle);
  }
  std::map<std::string_view, std::size_t> planned, paired;
  for (auto const& work : operations) ++planned[work.name];
  for (auto const& work : operations) {
    auto const found = seconds.find(work.name);
    auto const count = planned[work.name];
    if (found == seconds.end() || found->second.size() != steps * count) continue;
    double sum = 0;
    for (std::size_t step = 0; step < steps; ++step)
      sum += found->second[step * count + paired[work.name]];
    ++paired[work.name];
    out.operations.push_back({work, sum / static_cast<double>(steps)});
  }
  for (auto const& [name, durations] : seconds) {
    if (planned.contains(name)) continue;
    for (double const value : durations) out.unplanned[name] += value / static_cast<double>(steps);
  }
  return out;
}

}  // namespace parallel::predict
