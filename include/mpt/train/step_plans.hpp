// step_plans: the text of print_plan=true: everything that each rank of a run's pipeline enqueues
// in a step, verified.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/train/run_plan.hpp>
#include <parallel/train/show_step.hpp>
#include <parallel/train/verify_step.hpp>

namespace mpt {

/// The action lists of a step of a planned run of T, by pipeline rank. `one_queue`: whether the
/// run's devices have one queue (stepper_options::one_queue). Throws when they cannot run. Defined
/// in plan_run.hpp.
template <class T>
[[nodiscard]] std::vector<train::step_plan> step_plans_of(train_config const& config,
                                                          run_plan const& plan, bool one_queue);

/// The text of the plans, one after another.
[[nodiscard]] inline std::string describe_step(std::vector<train::step_plan> const& plans) {
  std::string out;
  for (auto const& plan : plans) out += train::text_of(plan) + '\n';
  for (auto const& plan : plans) {
    auto const residency = train::residency_of(plan);
    out += fmt::format(
        "pipeline rank {}: {} elements unsharded at most, {} of gradients of single "
        "microbatches, {} exchanges at once\n",
        plan.rank, residency.values, residency.gradients, train::exchanges_at_once(plan));
  }
  return out;
}

}  // namespace mpt
