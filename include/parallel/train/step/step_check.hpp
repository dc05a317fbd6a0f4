// step_check: checks one rank's list (step_plan.hpp) by itself, from its first action to its last.
#pragma once

#include <parallel/train/step/step_check_passes.hpp>
#include <parallel/train/step/step_check_units.hpp>

namespace parallel::train {

/// Whether the list makes a complete step on any timing of its streams. Cost: linear.
[[nodiscard]] inline step_verdict check_alone(step_plan const& plan) {
  detail::step_order order(plan);
  detail::step_check_passes passes(order);
  detail::step_check_units units(order);
  bool ended = false;
  for (auto const& a : plan.actions) {
    if (!order.next(a)) return order.verdict();
    order.expect(!ended, step_flaw::out_of_order);
    switch (a.kind) {
      case action_kind::begin: break;
      case action_kind::pass:
        passes.follow_pass(a);
        if (order.good()) units.follow_pass(a);
        break;
      case action_kind::edge: passes.follow_edge(a); break;
      case action_kind::end:
        order.expect(order.all_complete(), step_flaw::race);
        passes.end();
        units.end();
        ended = true;
        break;
      default: units.follow(a);
    }
    if (!order.good()) return order.verdict();
  }
  order.end();
  order.expect(ended, step_flaw::missing);
  return order.verdict();
}

}  // namespace parallel::train
