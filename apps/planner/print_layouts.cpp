#include <planner/print_layouts.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>

#include <cli/with_element.hpp>

namespace apps {
namespace {

constexpr std::size_t printed_layouts = 10;

[[nodiscard]] std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.3f}", seconds) : fmt::format("{:.1f}", seconds);
}

/// Numbers with equal neighbours together: "2 17x3 2".
[[nodiscard]] std::string runs_text(std::vector<int> const& numbers) {
  std::string out;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto const last = std::find_if(first, numbers.end(), [&](int n) { return n != *first; });
    if (!out.empty()) out += ' ';
    if (last - first > 1) out += fmt::format("{}x", last - first);
    out += std::to_string(*first);
    first = last;
  }
  return out;
}

[[nodiscard]] std::vector<std::string> table_row(candidate const& c) {
  auto const& p = c.prediction;
  return {name_of_layout(c),
          seconds_text(p.seconds),
          mpt::console::grouped(static_cast<std::int64_t>(p.tokens_per_second)),
          fmt::format("{:.1f} %", 100 * p.utilisation),
          mpt::console::bytes(static_cast<double>(c.plan.memory.total())),
          reason_of(p)};
}

/// A kind of layout that users ask about.
struct layout_kind {
  std::string_view name;
  std::function<bool(candidate const&)> holds;
};

[[nodiscard]] std::vector<layout_kind> layout_kinds(parallel::cluster::cluster const& machines) {
  namespace axis = parallel::axis;
  auto const is_data_only = [](candidate const& c) {
    auto const& p = c.config.execution.parallelism;
    return p.ranks_of_model() == 1;
  };
  auto const shards = [](candidate const& c) { return c.plan.layout.degree<axis::shard>(); };
  int const node = machines.devices_on_node;
  return {
      {"ZeRO 0 to 2",
       [=](candidate const& c) { return is_data_only(c) && c.config.execution.zero_stage < 3; }},
      {"ZeRO 3 over all",
       [=](candidate const& c) {
         return is_data_only(c) && c.config.execution.zero_stage == 3 &&
                shards(c) == c.plan.layout.ranks();
       }},
      {"ZeRO 3 in a node",
       [=](candidate const& c) {
         return is_data_only(c) && c.config.execution.zero_stage == 3 && shards(c) <= node &&
                shards(c) < c.plan.layout.ranks();
       }},
      {"tensor",
       [](candidate const& c) {
         return c.config.execution.parallelism.tensor > 1 &&
                c.config.execution.parallelism.pipeline == 1;
       }},
      {"pipeline", [](candidate const& c) { return c.config.execution.parallelism.pipeline > 1; }}};
}

/// The seconds of a step of `c` on other machines.
[[nodiscard]] double seconds_on(candidate const& c, parallel::cluster::cluster const& machines) {
  return with_element(c.config.execution.precision, [&]<class T>(T) {
    return mpt::predict_run<T>(c.config, c.plan, machines).seconds;
  });
}

/// A rate of a cluster by its name, with a function that multiplies it.
struct cluster_rate {
  std::string_view name;
  void (*multiply)(parallel::cluster::cluster& machines, double factor);
};

constexpr std::array<cluster_rate, 5> cluster_rates{
    {{"matrix products", [](auto& c, double factor) { c.program.products /= factor; }},
     {"attention", [](auto& c, double factor) { c.program.attention /= factor; }},
     {"memory", [](auto& c, double factor) { c.device.memory_rate *= factor; }},
     {"the links in a node", [](auto& c, double factor) { c.links.device_link.rate *= factor; }},
     {"the links between nodes",
      [](auto& c, double factor) { c.links.node_link.rate *= factor; }}}};

}  // namespace

std::string reason_of(mpt::prediction const& p) {
  auto const& s = p.split;
  std::array<std::pair<double, std::string_view>, 5> const losses{
      {{s.gathers, "waits {:.0f} % for values of other shards"},
       {s.sums, "waits {:.0f} % for sums of gradients"},
       {s.axes, "waits {:.0f} % for exchanges within layers"},
       {s.bubble + s.end, "idle {:.0f} % in the pipeline"},
       {s.update, "updates for {:.0f} %"}}};
  auto const& largest = *std::ranges::max_element(losses);
  double const share = 100 * largest.first / p.seconds;
  if (share < 3) return fmt::format("computes {:.0f} %", 100 * s.passes / p.seconds);
  return fmt::format(fmt::runtime(largest.second), share);
}

std::string name_of_layout(candidate const& c) {
  auto const& execution = c.config.execution;
  auto out = c.plan.layout.text();
  if (execution.parallelism.pipeline > 1) {
    out += ", " + execution.parallelism.schedule;
    if (execution.parallelism.schedule == "interleaved")
      out += fmt::format(" {}", execution.parallelism.stages_per_rank);
  }
  out += fmt::format(", ZeRO {}, {} x {}", execution.zero_stage, c.plan.split.accumulation,
                     c.plan.split.microbatch);
  if (execution.recompute && !execution.recompute->empty()) out += ", recomputes";
  if (!execution.parallelism.blocks_by_stage.empty())
    out += ", stages of " + runs_text(execution.parallelism.blocks_by_stage) + " blocks";
  if (execution.offload_optimizer) out += ", states on the host";
  if (execution.reduce_dtype == parallel::zero::reduce_dtype::bf16) out += ", bf16 sums";
  return out;
}

void print_best(std::vector<candidate> const& found, parallel::cluster::cluster const& machines) {
  std::vector<bool> const right{false, true, true, true, true, false};
  std::vector<std::vector<std::string>> rows{
      {"layout, ZeRO stage, microbatches", "step, s", "tokens/s", "MFU", "memory", ""}};
  for (auto const& c : found) {
    if (rows.size() > printed_layouts) break;
    auto row = table_row(c);
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(std::move(row));
  }
  fmt::print("{}\n", mpt::console::markdown_table(rows, right));
  if (found.size() == 1 && found.front().settings.empty()) return;  // no other layout was tried
  std::vector<std::vector<std::string>> kinds{
      {"best of a kind", "layout", "step, s", "times the best", ""}};
  for (auto const& kind : layout_kinds(machines)) {
    auto const best = std::ranges::find_if(found, kind.holds);
    if (best == found.end())
      kinds.push_back({std::string(kind.name), "does not fit, or cannot be", "", "", ""});
    else
      kinds.push_back(
          {std::string(kind.name), name_of_layout(*best), seconds_text(best->prediction.seconds),
           fmt::format("{:.2f}", best->prediction.seconds / found.front().prediction.seconds),
           reason_of(best->prediction)});
  }
  fmt::print("{}\n", mpt::console::markdown_table(kinds, {false, false, true, true, false}));
}

void print_sensitivity(candidate const& best, parallel::cluster::cluster const& machines) {
  double const seconds = best.prediction.seconds;
  std::pair<double, std::string_view> largest{0, ""};
  auto slow = machines, fast = machines;
  for (auto const& rate : cluster_rates) {
    auto changed = machines;
    rate.multiply(changed, 0.8);
    largest = std::max(largest, {seconds_on(best, changed) / seconds - 1, rate.name});
    rate.multiply(slow, 0.9);
    rate.multiply(fast, 1.1);
  }
  fmt::print(
      "most sensitive to the rate of {}: a fifth lower, a step takes {:.0f} % longer\n"
      "between {} and {} s if every rate is a tenth better or worse\n",
      largest.second, 100 * largest.first, seconds_text(seconds_on(best, fast)),
      seconds_text(seconds_on(best, slow)));
}

nlohmann::ordered_json json_of(candidate const& c) {
  auto const& p = c.prediction;
  auto const& s = p.split;
  nlohmann::ordered_json out{{"layout", name_of_layout(c)},
                             {"settings", c.settings},
                             {"seconds", p.seconds},
                             {"tokens_per_second", p.tokens_per_second},
                             {"mfu", p.utilisation},
                             {"memory_bytes", c.plan.memory.total()},
                             {"microbatch", c.plan.split.microbatch},
                             {"accumulation", c.plan.split.accumulation}};
  out["split"] = {{"passes", s.passes},   {"axes", s.axes}, {"update", s.update},
                  {"gathers", s.gathers}, {"sums", s.sums}, {"bubble", s.bubble},
                  {"end", s.end}};
  out["operations"] = p.by_operation;
  out["waits"] = p.waits;
  out["bytes_sent"] = {{"in_node", p.sent.in_node}, {"to_nodes", p.sent.to_nodes}};
  auto& memory = out["memory_by_pipeline_rank"] = nlohmann::ordered_json::array();
  for (auto const& rank : c.plan.by_pipeline_rank) memory.push_back(rank.total());
  return out;
}

}  // namespace apps
