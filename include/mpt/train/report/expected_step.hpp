// expected_step: what a step is predicted to take on rank 0, and what its steps take, by part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/train/report/profile.hpp>
#include <parallel/device/host/trace.hpp>

namespace mpt {

/// Seconds of a step on a rank.
struct step_seconds {
  double total = 0;
  /// Of an operation, by its name, of "update" (gradients and parameters), and of "waiting" for
  /// other ranks.
  std::map<std::string, double> by_operation = {};

  /// Seconds by part of the step: "products", "attention", "other operations", "update", "waiting".
  [[nodiscard]] std::map<std::string, double> by_part() const;
};

/// The seconds of `steps` steps, in the mean of a step, from the tasks of a compute stream. Tasks
/// that `expected` does not name count as update. Requires tasks.
[[nodiscard]] step_seconds measured_seconds(step_seconds const& expected,
                                            std::vector<host::timed_task> const& tasks,
                                            std::int64_t steps);

/// Compares the steps of a run with what was predicted.
class step_watch {
 public:
  /// Batches from one that is timed to the next one, after the first few.
  static constexpr std::int64_t interval = 20;

  explicit step_watch(step_seconds expected) : expected_(std::move(expected)) {}

  /// Takes the tasks of `steps` steps. Returns the sentence that names the part of a slow step:
  /// one that takes a fifth longer than predicted; "" where steps are as fast, or the same part was
  /// named before.
  [[nodiscard]] std::string observe(std::vector<host::timed_task> const& tasks, std::int64_t steps);

  /// Numbers for the metrics, of the steps that were observed last: predicted/ and measured/ with
  /// the parts.
  [[nodiscard]] std::vector<std::pair<std::string, double>> numbers() const;

  [[nodiscard]] step_seconds const& expected() const { return expected_; }
  /// The mean over what was observed; none: nothing was.
  [[nodiscard]] std::optional<step_seconds> mean() const;

 private:
  step_seconds expected_;
  step_seconds last_;
  step_seconds sum_;
  std::int64_t observed_ = 0;
  std::string named_part_;
};

}  // namespace mpt
