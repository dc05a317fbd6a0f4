// step_plans: what print_plan=true shows: everything that each rank of a run's pipeline enqueues in
// a step, proved.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/train/run_plan.hpp>
#include <parallel/train/show_step.hpp>
#include <parallel/train/verify_step.hpp>

namespace mpt {

/// The lists of a step of a run of T as planned, by pipeline rank. `one_queue`: as the run's
/// devices are (stepper_options::one_queue). Throws when they cannot run. Defined in plan_run.hpp.
template <class T>
[[nodiscard]] std::vector<train::step_plan> step_plans_of(train_config const& config,
                                                          run_plan const& plan, bool one_queue);

/// Their text, one after another.
[[nodiscard]] inline std::string describe_step(std::vector<train::step_plan> const& plans) {
  std::string out;
  for (auto const& one : plans) out += train::text_of(one) + '\n';
  for (auto const& one : plans) {
    auto const kept = train::residency_of(one);
    out += fmt::format(
        "pipeline rank {}: {} elements unsharded at most, {} of gradients of single "
        "microbatches, {} exchanges at once\n",
        one.rank, kept.values, kept.gradients, train::exchanges_at_once(one));
  }
  return out;
}

}  // namespace mpt
