#include <mpt/plan/predict_run.hpp>

namespace mpt::detail {
namespace {

/// Adds the seconds of the passes of a rank's step by operation, and of their exchanges by axis.
void add_operations(prediction& out, train::step_plan const& plan,
                    predict::pass_times const& passes) {
  for (auto const& a : plan.actions) {
    if (a.kind != train::action_kind::pass) continue;
    auto const found = passes.find({a.pass, a.model_part});
    if (found == passes.end()) continue;
    for (auto const& [name, seconds] : found->second.by_operation)
      out.by_operation[std::string(name)] += seconds;
    for (auto const& [axis, seconds] : found->second.by_axis)
      out.waits[std::string(axis)] += seconds;
  }
}

}  // namespace

cluster::link_bytes bytes_sent(train::step_plan const& plan, predict::step_costs const& costs,
                               predict::pass_times const& passes) {
  cluster::link_bytes out;
  for (auto const& a : plan.actions) {
    out += costs(a).sent;
    if (a.kind != train::action_kind::pass) continue;
    auto const found = passes.find({a.pass, a.model_part});
    if (found != passes.end()) out += found->second.sent;
  }
  return out;
}

prediction summary_of(simulated_run const& run) {
  prediction out{.seconds = run.times.seconds};
  for (std::size_t rank = 0; rank < run.plans.size(); ++rank) {
    auto const split =
        predict::split_of(run.plans[rank], run.times.actions[rank], run.times.seconds, run.passes);
    if (rank > 0 && split.passes <= out.split.passes) continue;
    out.split = split;
    out.busiest_rank = static_cast<int>(rank);
  }
  auto const busiest = static_cast<std::size_t>(out.busiest_rank);
  auto const& actions = run.plans[busiest].actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    auto const& times = run.times.actions[busiest][i];
    if (is_collective(actions[i].kind)) out.exchange_seconds += times.end - times.begin;
  }
  add_operations(out, run.plans[busiest], run.passes);
  out.sent = run.sent[busiest];
  out.waits["values"] = out.split.gathers;
  out.waits["gradients"] = out.split.sums;
  out.waits["pipeline"] = out.split.bubble + out.split.end;
  return out;
}

}  // namespace mpt::detail
