// spike_limits: limits of the loss and the gradient norm of the next batch, from earlier batches.
//
// A batch is a spike when one of them is more than so many standard deviations above the mean of
// the last updates. That is OLMo's rule (Allen AI, OLMo-core, `SkipStepOptimizer`: the last 128, 6
// deviations; the deviation of a sample, divided by n - 1), except that a value far below the mean
// is no spike, and that the numbers of a batch which updated nothing are not recorded.
#pragma once

#include <deque>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <parallel/core/error.hpp>
#include <parallel/train/step_limits.hpp>

namespace mpt {

class spike_limits {
 public:
  explicit spike_limits(spike_check_config const& config) : config_(config) {}

  /// Adds the mean loss and the norm of the mean gradient, before clipping, of a batch that
  /// updated; the oldest is forgotten when there are more than the window holds.
  void add(double loss, double gradient_norm);

  /// The limits; infinite until there are half as many updates as the window holds.
  [[nodiscard]] parallel::train::step_limits limits() const;

  /// A clause about a batch above these limits: "the loss 9.5 is a spike, above the mean 3.2 of the
  /// last 64 updates by more than 6 standard deviations of 0.31".
  [[nodiscard]] std::string describe(double loss, double gradient_norm) const;

  [[nodiscard]] nlohmann::json state() const;
  /// Restores the state from a checkpoint's manifest; null (a run without this check) restores
  /// nothing.
  void restore(nlohmann::json const& saved);

 private:
  struct mean_and_deviation {
    double mean;
    double deviation;
  };

  /// Mean and deviation of at least two numbers. The sums are of differences from the first number,
  /// so that the mean of equal numbers is exactly that number.
  [[nodiscard]] static mean_and_deviation moments(std::deque<double> const& values);

  [[nodiscard]] double limit_of(std::deque<double> const& values) const;

  void drop_oldest();

  spike_check_config config_;
  std::deque<double> losses_;
  std::deque<double> norms_;
};

}  // namespace mpt
