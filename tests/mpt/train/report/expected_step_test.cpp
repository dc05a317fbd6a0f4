// Steps are compared with what was predicted, and the part that is slow is named.
#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include <mpt/train/report/expected_step.hpp>

namespace expected_step_test {
namespace {

/// Tasks of a stream that follow each other, with seconds.
std::vector<parallel::host::timed_task> tasks_of(
    std::vector<std::pair<char const*, int>> const& seconds) {
  std::vector<parallel::host::timed_task> out;
  parallel::steady_time now{};
  for (auto const& [name, length] : seconds) {
    out.push_back({{name}, now, now + std::chrono::seconds(length)});
    now = out.back().end;
  }
  return out;
}

mpt::step_seconds predicted_step() {
  return {.total = 10,
          .by_operation = {
              {"matmul", 4}, {"attention", 2}, {"gelu", 1}, {"update", 1}, {"waiting", 2}}};
}

TEST_CASE("expected step: the seconds of a step are divided by what the prediction names") {
  auto const measured = mpt::measured_seconds(
      predicted_step(),
      tasks_of({{"matmul", 8}, {"wait", 2}, {"gelu", 2}, {"adamw", 4}, {"attention", 4}}), 2);
  CHECK(measured.total == 10);
  auto const parts = measured.by_part();
  CHECK(parts.at("products") == 4);
  CHECK(parts.at("attention") == 2);
  CHECK(parts.at("other operations") == 1);
  CHECK(parts.at("update") == 2);
  CHECK(parts.at("waiting") == 1);
}

TEST_CASE("expected step: a slow step's sentence names the part with the most seconds too many") {
  mpt::step_watch watch(predicted_step());
  CHECK_FALSE(watch.mean());
  auto const usual = tasks_of({{"matmul", 5}, {"attention", 2}, {"gelu", 1}, {"wait", 3}});
  auto const slow = tasks_of({{"matmul", 5}, {"attention", 2}, {"gelu", 1}, {"wait", 8}});
  CHECK(watch.observe(usual, 1).empty());  // 11 seconds: within a fifth
  CHECK(watch.observe(slow, 1) ==
        "slow: a step takes 16 s, predicted 10 s; waiting 8 s, predicted 2 s");
  CHECK(watch.observe(slow, 1).empty());  // the same part is not named again
  CHECK(watch.observe(usual, 1).empty());
  CHECK_FALSE(watch.observe(slow, 1).empty());  // unless steps were fast in between
  CHECK(watch.mean().value().total == (11 + 16 + 16 + 11 + 16) / 5.0);
  auto const numbers = watch.numbers();
  CHECK(numbers.front() == std::pair<std::string, double>("predicted/step_seconds", 10));
  bool has_waiting = false;
  for (auto const& [name, value] : numbers)
    has_waiting |= name == "measured/waiting_seconds" && value == 8;
  CHECK(has_waiting);
}

}  // namespace
}  // namespace expected_step_test
