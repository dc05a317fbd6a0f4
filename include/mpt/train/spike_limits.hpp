// spike_limits: limits of the loss and the gradient norm of the next batch, from earlier batches.
//
// A batch is a spike when one of them lies more than so many standard deviations above the mean of
// the last updates. That is OLMo's rule (Allen AI, OLMo-core, `SkipStepOptimizer`: the last 128, 6
// deviations; the deviation of a sample, divided by n - 1), except that a value far below the mean
// is no spike, and that the numbers of a batch which updated nothing are not recorded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
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
  void add(double loss, double gradient_norm) {
    losses_.push_back(loss);
    norms_.push_back(gradient_norm);
    drop_oldest();
  }

  /// The limits; infinite until there are half as many updates as the window holds.
  [[nodiscard]] parallel::train::step_limits limits() const {
    if (2 * std::ssize(losses_) < config_.window) return {};
    return {limit_of(losses_), limit_of(norms_)};
  }

  /// A clause about a batch above these limits: "the loss 9.5 is a spike, above the mean 3.2 of the
  /// last 64 updates by more than 6 standard deviations of 0.31".
  [[nodiscard]] std::string describe(double loss, double gradient_norm) const {
    bool const is_loss = loss > limits().loss;
    auto const [mean, deviation] = moments(is_loss ? losses_ : norms_);
    return parallel::concat("the ", is_loss ? "loss " : "gradient norm ",
                            is_loss ? loss : gradient_norm, " is a spike, above the mean ", mean,
                            " of the last ", losses_.size(), " updates by more than ",
                            config_.deviations, " standard deviations of ", deviation);
  }

  [[nodiscard]] nlohmann::json state() const {
    return {{"losses", losses_}, {"gradient_norms", norms_}};
  }
  /// Restores the state from a checkpoint's manifest; null (a run without this check) restores
  /// nothing.
  void restore(nlohmann::json const& saved) {
    losses_.clear();
    norms_.clear();
    if (saved.is_null()) return;
    try {
      losses_ = saved.at("losses").get<std::deque<double>>();
      norms_ = saved.at("gradient_norms").get<std::deque<double>>();
    } catch (nlohmann::json::exception const&) {
      losses_ = {0};  // refused below
    }
    parallel::require(losses_.size() == norms_.size(),
                      "the checkpoint's state of spike_check is damaged; use another checkpoint");
    drop_oldest();
  }

 private:
  struct mean_and_deviation {
    double mean;
    double deviation;
  };

  /// Mean and deviation of at least two numbers. The sums are of differences from the first number,
  /// so that the mean of equal numbers is exactly that number.
  [[nodiscard]] static mean_and_deviation moments(std::deque<double> const& values) {
    auto const count = static_cast<double>(values.size());
    double sum = 0;
    for (double const value : values) sum += value - values.front();
    double const mean = values.front() + sum / count;
    double squares = 0;
    for (double const value : values) squares += (value - mean) * (value - mean);
    return {mean, std::sqrt(squares / (count - 1))};
  }

  [[nodiscard]] double limit_of(std::deque<double> const& values) const {
    auto const [mean, deviation] = moments(values);
    return mean + config_.deviations * deviation;
  }

  void drop_oldest() {
    for (auto* const values : {&losses_, &norms_})
      while (std::ssize(*values) > config_.window) values->pop_front();
  }

  spike_check_config config_;
  std::deque<double> losses_;
  std::deque<double> norms_;
};

}  // namespace mpt
