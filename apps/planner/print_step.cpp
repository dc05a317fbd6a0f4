#include <planner/print_step.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <parallel/predict/draw_step.hpp>

#include <cli/with_element.hpp>

namespace apps {

void print_step(candidate const& c) {
  std::vector<std::string> memory, waits;
  for (auto const& rank : c.plan.by_pipeline_rank)
    memory.push_back(mpt::console::bytes(static_cast<double>(rank.total())));
  if (memory.size() > 1) fmt::print("memory by pipeline rank: {}\n", fmt::join(memory, ", "));
  auto const& p = c.prediction;
  fmt::print("a rank sends in a step: {} inside its node, {} to other nodes\n",
             mpt::console::bytes(p.sent.in_node), mpt::console::bytes(p.sent.to_nodes));
  for (auto const& [name, seconds] : p.waits)
    if (seconds > 0) waits.push_back(fmt::format("{} {:.1f} %", name, 100 * seconds / p.seconds));
  if (!waits.empty()) fmt::print("it waits of a step for: {}\n", fmt::join(waits, ", "));
  fmt::print("\n");
}

void draw_pipeline(candidate const& c, parallel::cluster::cluster const& machines) {
  constexpr std::size_t columns = 80;
  auto const run = with_element(c.config.execution.precision, [&]<class T>(T) {
    return mpt::simulate_run<T>(c.config, c.plan, machines);
  });
  auto const label = std::to_string(run.plans.size() - 1).size();
  auto const lines = parallel::predict::draw_step(run.plans, run.times, columns - label - 1);
  for (std::size_t rank = 0; rank < lines.size(); ++rank)
    fmt::print("{:>{}} {}\n", rank, label, lines[rank]);
  fmt::print("a step by pipeline rank: {}\n\n", parallel::predict::drawing_legend);
}

}  // namespace apps
