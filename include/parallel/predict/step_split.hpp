// step_split: what the compute stream of a rank does in a simulated step: it computes, or waits for
// other stages or for exchanges of gradients and values.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/predict/simulate_step.hpp>
#include <parallel/predict/step_costs.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::predict {

/// Seconds of one rank in a step; they sum to the step's.
struct step_split {
  double passes = 0;   ///< operations of the passes
  double axes = 0;     ///< waiting for exchanges within passes, along tensor and context
  double update = 0;   ///< the optimizer, and clearing and measuring gradients
  double gathers = 0;  ///< waiting for values of other ranks
  double sums = 0;     ///< waiting for sums of gradients, and for the sums of a step
  double bubble = 0;   ///< waiting for other stages of the pipeline
  double end = 0;      ///< after this rank's last action

  [[nodiscard]] double exchanges() const { return axes + gathers + sums; }
};

namespace detail {

/// The part of a split to which waiting for an action belongs.
[[nodiscard]] inline double& waiting_for(step_split& split, train::action_kind kind) {
  using enum train::action_kind;
  if (kind == edge) return split.bubble;
  return kind == unshard || kind == gather ? split.gathers : split.sums;
}

}  // namespace detail

/// The split of a rank's part of a simulated step.
[[nodiscard]] inline step_split split_of(train::step_plan const& plan,
                                         std::vector<interval> const& times, double seconds,
                                         pass_times const& passes) {
  step_split out;
  double reached = 0;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    auto const& a = plan.actions[i];
    if (a.lane != train::lane::compute) continue;
    if (times[i].begin > reached) {
      auto latest = train::action_kind::edge;
      double end = -1;
      for (int const other : a.dependencies) {
        auto const n = static_cast<std::size_t>(other);
        if (plan.actions[n].lane == train::lane::compute || times[n].end <= end) continue;
        end = times[n].end;
        latest = plan.actions[n].kind;
      }
      detail::waiting_for(out, latest) += times[i].begin - reached;
    }
    double const length = times[i].end - times[i].begin;
    reached = times[i].end;
    if (a.kind != train::action_kind::pass) {
      out.update += length;
      continue;
    }
    auto const found = passes.find({a.pass, a.model_part});
    double const waiting = found == passes.end() ? 0 : found->second.waiting;
    out.axes += waiting;
    out.passes += length - waiting;
  }
  out.end = seconds - reached;
  return out;
}

}  // namespace parallel::predict
