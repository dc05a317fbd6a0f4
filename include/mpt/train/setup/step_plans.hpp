// step_plans: the text of print_plan=true: everything that each rank of a run's pipeline enqueues
// in a step, verified.
#pragma once

#include <string>
#include <vector>

#include <mpt/train/setup/run_plan.hpp>

namespace mpt {

/// The action lists of a step of a planned run of T, by pipeline rank; with pass::inference, those
/// of an evaluation of as many microbatches as the pipeline has ranks. `one_queue`: whether the
/// run's devices have one queue (stepper_options::one_queue). Throws when they cannot run. Defined
/// in plan_run.hpp.
template <class T>
[[nodiscard]] std::vector<train::step_plan> step_plans_of(
    model_config const& model, optimizer_config const& optimizer, execution_config const& execution,
    run_config const& run, run_plan const& plan, bool one_queue, pass mode = pass::training);

/// The text of the plans, one after another.
[[nodiscard]] std::string describe_step(std::vector<train::step_plan> const& plans);

}  // namespace mpt
