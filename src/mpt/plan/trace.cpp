#include <mpt/plan/trace.hpp>

namespace mpt {

nlohmann::json trace_of(simulated_run const& run) {
  auto events = nlohmann::json::array();
  auto const name = [&](char const* kind, std::size_t rank, int thread, std::string const& text) {
    events.push_back(
        {{"ph", "M"}, {"name", kind}, {"pid", rank}, {"tid", thread}, {"args", {{"name", text}}}});
  };
  for (std::size_t rank = 0; rank < run.plans.size(); ++rank) {
    auto const& plan = run.plans[rank];
    name("process_name", rank, 0, "pipeline rank " + std::to_string(rank));
    for (std::size_t lane = 0; lane < plan.lanes(); ++lane)
      name("thread_name", rank, static_cast<int>(lane),
           train::name_of_lane(plan, static_cast<int>(lane)));
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      auto const& times = run.times.actions[rank][i];
      if (times.end <= times.begin) continue;
      events.push_back({{"ph", "X"},
                        {"name", train::to_string(plan, plan.actions[i])},
                        {"cat", train::to_string(plan.actions[i].kind)},
                        {"pid", rank},
                        {"tid", plan.actions[i].lane},
                        {"ts", 1e6 * times.begin},
                        {"dur", 1e6 * (times.end - times.begin)}});
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace mpt
