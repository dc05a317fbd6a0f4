#include <mpt/train/report/expected_step.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <parallel/core/error.hpp>

namespace mpt {
namespace {

[[nodiscard]] std::string_view part_of(std::string_view operation) {
  if (operation == "update" || operation == "waiting") return operation;
  if (operation.find("attention") != operation.npos) return "attention";
  bool const is_product = operation == "matmul" || operation.starts_with("affine");
  return is_product ? "products" : "other operations";
}

[[nodiscard]] double seconds_of(parallel::steady_time begin, parallel::steady_time end) {
  return std::chrono::duration<double>(end - begin).count();
}

[[nodiscard]] std::string in_words(double seconds) {
  return seconds < 0.1 ? fmt::format("{:.3g} ms", 1000 * seconds)
                       : fmt::format("{:.3g} s", seconds);
}

}  // namespace

std::map<std::string, double> step_seconds::by_part() const {
  std::map<std::string, double> out;
  for (auto const& [name, seconds] : by_operation) out[std::string(part_of(name))] += seconds;
  return out;
}

step_seconds measured_seconds(step_seconds const& expected,
                              std::vector<host::timed_task> const& tasks, std::int64_t steps) {
  parallel::require(!tasks.empty() && steps > 0, "no task of a step was timed");
  auto const count = static_cast<double>(steps);
  step_seconds out{.total = seconds_of(tasks.front().begin, tasks.back().end) / count};
  double computed = 0;
  for (auto const& task : tasks) {
    auto const name = std::string(detail::task_name(task.label.name));
    if (name == "wait") continue;
    double const seconds = seconds_of(task.begin, task.end) / count;
    out.by_operation[expected.by_operation.contains(name) ? name : "update"] += seconds;
    computed += seconds;
  }
  out.by_operation["waiting"] = std::max(0.0, out.total - computed);
  return out;
}

std::string step_watch::observe(std::vector<host::timed_task> const& tasks, std::int64_t steps) {
  if (tasks.empty()) return {};
  last_ = measured_seconds(expected_, tasks, steps);
  sum_.total += last_.total;
  for (auto const& [name, seconds] : last_.by_operation) sum_.by_operation[name] += seconds;
  ++observed_;
  if (last_.total < 1.2 * expected_.total) {
    named_part_.clear();
    return {};
  }
  auto predicted = expected_.by_part();
  std::string slow;
  double excess = 0, measured = 0;
  for (auto const& [part, seconds] : last_.by_part()) {
    if (seconds - predicted[part] <= excess) continue;
    excess = seconds - predicted[part];
    slow = part;
    measured = seconds;
  }
  if (slow == named_part_) return {};
  named_part_ = slow;
  return fmt::format("slow: a step takes {}, predicted {}; {} {}, predicted {}",
                     in_words(last_.total), in_words(expected_.total), slow, in_words(measured),
                     in_words(predicted[slow]));
}

std::vector<std::pair<std::string, double>> step_watch::numbers() const {
  std::vector<std::pair<std::string, double>> out;
  for (auto const& [prefix, seconds] :
       {std::pair{"predicted/", &expected_}, std::pair{"measured/", &last_}}) {
    out.emplace_back(fmt::format("{}step_seconds", prefix), seconds->total);
    for (auto const& [part, value] : seconds->by_part()) {
      auto name = fmt::format("{}{}_seconds", prefix, part);
      std::ranges::replace(name, ' ', '_');
      out.emplace_back(std::move(name), value);
    }
  }
  return out;
}

std::optional<step_seconds> step_watch::mean() const {
  if (observed_ == 0) return std::nullopt;
  auto out = sum_;
  auto const count = static_cast<double>(observed_);
  out.total /= count;
  for (auto& [name, seconds] : out.by_operation) seconds /= count;
  return out;
}

}  // namespace mpt
