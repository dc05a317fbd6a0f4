// spike_limits: what the loss and the gradient norm of the next batch may be, by those before it.
//
// A batch is a spike when one of them lies more than so many standard deviations above the mean of
// the last updates. That is OLMo's rule (Allen AI, OLMo-core, `SkipStepOptimizer`: the last 128, 6
// deviations; the deviation of a sample, divided by n - 1), but that what lies far below the mean
// is none, and that the numbers of a batch which updated nothing are not remembered.
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
  explicit spike_limits(spike_check_config const& how) : how_(how) {}

  /// Adds the mean loss and the norm of the mean gradient, before clipping, of a batch that
  /// updated; the oldest is forgotten when there are more than the window holds.
  void add(double loss, double gradient_norm) {
    losses_.push_back(loss);
    norms_.push_back(gradient_norm);
    shorten();
  }

  /// Infinite until there are half as many updates as the window holds.
  [[nodiscard]] parallel::train::step_limits limits() const {
    if (2 * std::ssize(losses_) < how_.window) return {};
    return {limit_of(losses_), limit_of(norms_)};
  }

  /// What to say of a batch above these limits: "the loss 9.5 is a spike, above the mean 3.2 of the
  /// last 64 updates by more than 6 standard deviations of 0.31".
  [[nodiscard]] std::string describe(double loss, double gradient_norm) const {
    bool const of_loss = loss > limits().loss;
    auto const [mean, deviation] = moments(of_loss ? losses_ : norms_);
    return parallel::concat("the ", of_loss ? "loss " : "gradient norm ",
                            of_loss ? loss : gradient_norm, " is a spike, above the mean ", mean,
                            " of the last ", losses_.size(), " updates by more than ",
                            how_.deviations, " standard deviations of ", deviation);
  }

  [[nodiscard]] nlohmann::json state() const {
    return {{"losses", losses_}, {"gradient_norms", norms_}};
  }
  /// What comes from a checkpoint's manifest; null, of a run that looked for none: nothing.
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
    shorten();
  }

 private:
  struct mean_and_deviation {
    double mean;
    double deviation;
  };

  /// Of two numbers at least. Sums are of differences from the first, so that numbers that are all
  /// the same have just that mean.
  [[nodiscard]] static mean_and_deviation moments(std::deque<double> const& all) {
    auto const count = static_cast<double>(all.size());
    double sum = 0;
    for (double const one : all) sum += one - all.front();
    double const mean = all.front() + sum / count;
    double squares = 0;
    for (double const one : all) squares += (one - mean) * (one - mean);
    return {mean, std::sqrt(squares / (count - 1))};
  }

  [[nodiscard]] double limit_of(std::deque<double> const& all) const {
    auto const [mean, deviation] = moments(all);
    return mean + how_.deviations * deviation;
  }

  void shorten() {
    for (auto* const all : {&losses_, &norms_})
      while (std::ssize(*all) > how_.window) all->pop_front();
  }

  spike_check_config how_;
  std::deque<double> losses_;
  std::deque<double> norms_;
};

}  // namespace mpt
