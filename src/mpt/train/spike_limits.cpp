#include <mpt/train/spike_limits.hpp>

#include <cmath>
#include <iterator>

namespace mpt {

void spike_limits::add(double loss, double gradient_norm) {
  losses_.push_back(loss);
  norms_.push_back(gradient_norm);
  drop_oldest();
}

parallel::train::step_limits spike_limits::limits() const {
  if (2 * std::ssize(losses_) < config_.window) return {};
  return {limit_of(losses_), limit_of(norms_)};
}

std::string spike_limits::describe(double loss, double gradient_norm) const {
  bool const is_loss = loss > limits().loss;
  auto const [mean, deviation] = moments(is_loss ? losses_ : norms_);
  return parallel::concat("the ", is_loss ? "loss " : "gradient norm ",
                          is_loss ? loss : gradient_norm, " is a spike, above the mean ", mean,
                          " of the last ", losses_.size(), " updates by more than ",
                          config_.deviations, " standard deviations of ", deviation);
}

nlohmann::json spike_limits::state() const {
  return {{"losses", losses_}, {"gradient_norms", norms_}};
}

void spike_limits::restore(nlohmann::json const& saved) {
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

spike_limits::mean_and_deviation spike_limits::moments(std::deque<double> const& values) {
  auto const count = static_cast<double>(values.size());
  double sum = 0;
  for (double const value : values) sum += value - values.front();
  double const mean = values.front() + sum / count;
  double squares = 0;
  for (double const value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count - 1))};
}

double spike_limits::limit_of(std::deque<double> const& values) const {
  auto const [mean, deviation] = moments(values);
  return mean + config_.deviations * deviation;
}

void spike_limits::drop_oldest() {
  for (auto* const values : {&losses_, &norms_})
    while (std::ssize(*values) > config_.window) values->pop_front();
}

}  // namespace mpt
