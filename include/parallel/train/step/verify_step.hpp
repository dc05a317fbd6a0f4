// verify_step: proves before anything runs that the lists of all ranks (step_plan.hpp) can run:
// each list by itself (step_check.hpp) and all of them together (step_rendezvous.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/train/step/step_check.hpp>
#include <parallel/train/step/step_rendezvous.hpp>

namespace parallel::train {

/// The number of streams on which the rank exchanges data, which is the largest number of exchanges
/// that may wait for other ranks at the same time.
[[nodiscard]] inline int exchanges_at_once(step_plan const& plan) {
  std::vector<char> used(plan.lanes(), 0);
  for (auto const& a : plan.actions)
    if (a.exchanges()) used[static_cast<std::size_t>(a.lane)] = 1;
  return static_cast<int>(std::ranges::count(used, 1));
}

/// Whether the plans make a complete step on any timing. `plans`: those of every rank of the
/// pipeline, and optionally those of further ranks that hold the same stages and take part in the
/// same collectives. `at_once`: how many exchanges a device runs at the same time, whichever begins
/// first; 0: any number. With fewer than there are streams of exchanges, exchanges that wait for
/// other ranks can keep out those for which other ranks wait. Cost: linear in the lists, half a
/// microsecond an action.
[[nodiscard]] inline step_verdict verify(std::span<step_plan const> plans, int at_once = 0) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (auto found = check_alone(plans[i]); !found.good()) {
      found.plan = i;
      return found;
    }
    if (at_once > 0 && exchanges_at_once(plans[i]) > at_once)
      return {step_flaw::too_many_exchanges, i, static_cast<int>(plans[i].actions.size())};
  }
  return detail::step_rendezvous(plans).run();
}

/// The elements that are unsharded on a rank at once, and those of gradients of single
/// microbatches.
struct step_residency {
  index values = 0;
  index gradients = 0;
};

/// The maximum at any time: what all buffers hold together.
[[nodiscard]] inline step_residency residency_of(step_plan const& plan) {
  step_residency out;
  for (index const size : plan.values) out.values += size;
  for (index const size : plan.gradients) out.gradients += size;
  return out;
}

/// The verdict as a sentence.
[[nodiscard]] inline std::string to_string(step_verdict const& found,
                                           std::span<step_plan const> plans) {
  if (found.good()) return "every rank comes to the end of its step";
  constexpr std::string_view phrases[] = {
      "",
      "does not come after what it needs, or comes twice",
      "is reached although something of the step is missing",
      "does not find the values or gradients it needs",
      "finds what belongs to another microbatch",
      "uses memory that an earlier action may still be using",
      "takes gradients that are not complete",
      "reduces gradients a second time",
      "is on a stream where it does not belong",
      "is reached by a device that runs too few exchanges at once for its streams",
      "meets another exchange on another rank",
      "waits for ever"};
  step_plan const& plan = plans[found.plan];
  auto const number = static_cast<std::size_t>(found.action);
  auto const action =
      number < plan.actions.size() ? to_string(plan, plan.actions[number]) : "its end";
  return concat("the step's plan of pipeline rank ", plan.rank, " of ", plan.ranks, " with ",
                plan.microbatches, " microbatches cannot run: action ", number, " (", action, ") ",
                phrases[static_cast<std::size_t>(found.problem)],
                "; this is an error of the library, please report it");
}

/// Whether plans that verify() has proved also complete where each rank has one queue for all its
/// streams.
[[nodiscard]] inline step_verdict verify_in_one_queue(std::span<step_plan const> plans) {
  return detail::step_rendezvous(plans, {}, step_queues::one).run();
}

/// Throws the verdict's sentence when the plans cannot run, or cannot where each rank has
/// `one_queue`.
/// A template, so that ParallelLM::host can hold it compiled.
template <class = void>
void require_runs(std::span<step_plan const> plans, bool one_queue = false) {
  auto found = verify(plans);
  if (found.good() && one_queue) found = verify_in_one_queue(plans);
  require(found.good(), to_string(found, plans));
}

}  // namespace parallel::train
