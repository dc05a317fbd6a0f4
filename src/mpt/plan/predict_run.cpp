#include <mpt/plan/predict_run.hpp>

#include <cstddef>
#include <utility>

namespace mpt {
namespace {

/// visit(times) for every pass of a rank's step whose time is known.
template <class Visit>
void for_each_pass(train::step_plan const& plan, predict::pass_times const& passes,
                   Visit const& visit) {
  for (auto const& a : plan.actions) {
    if (a.kind != train::action_kind::pass) continue;
    auto const found = passes.find({a.pass, a.model_part});
    if (found != passes.end()) visit(found->second);
  }
}

/// The seconds of the passes of a rank's step by operation.
[[nodiscard]] std::map<std::string, double> operations_of(train::step_plan const& plan,
                                                          predict::pass_times const& passes) {
  std::map<std::string, double> out;
  for_each_pass(plan, passes, [&](predict::pass_time const& times) {
    for (auto const& [name, seconds] : times.by_operation) out[std::string(name)] += seconds;
  });
  return out;
}

}  // namespace

cluster::link_bytes detail::bytes_sent(train::step_plan const& plan,
                                       predict::step_costs const& costs,
                                       predict::pass_times const& passes) {
  cluster::link_bytes out;
  for (auto const& a : plan.actions) out += costs(a).sent;
  for_each_pass(plan, passes, [&](predict::pass_time const& times) { out += times.sent; });
  return out;
}

prediction detail::summary_of(simulated_run const& run) {
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
  for_each_pass(run.plans[busiest], run.passes, [&](predict::pass_time const& times) {
    out.operations += static_cast<std::size_t>(times.operations);
    for (auto const& [axis, seconds] : times.by_axis) out.waits[std::string(axis)] += seconds;
  });
  out.by_operation = operations_of(run.plans[busiest], run.passes);
  out.sent = run.sent[busiest];
  out.waits["values"] = out.split.gathers;
  out.waits["gradients"] = out.split.sums;
  out.waits["pipeline"] = out.split.bubble + out.split.end;
  return out;
}

step_seconds step_of_rank(simulated_run const& run, std::size_t rank) {
  auto const split =
      predict::split_of(run.plans[rank], run.times.actions[rank], run.times.seconds, run.passes);
  auto operations = operations_of(run.plans[rank], run.passes);
  operations["update"] = split.update;
  operations["waiting"] = split.exchanges() + split.bubble + split.end;
  return {.total = run.times.seconds, .by_operation = std::move(operations)};
}

}  // namespace mpt
