#include <mpt/callbacks/kill_loss_spike.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <parallel/core/failures.hpp>

namespace mpt {

void kill_loss_spike::batch_end(run_control& run, batch_result const& r) {
  if (is_full()) {
    if (!has_final_size_) {
      has_final_size_ = true;
      window_ =
          std::max<std::int64_t>(window_, std::llround(static_cast<double>(total_batches_) * 0.05));
    }
    if (is_full()) check(run, r);
  }
  losses_.push_back(r.loss);
  if (std::ssize(losses_) > window_) losses_.pop_front();
}

nlohmann::json kill_loss_spike::state() const {
  return {{"window", window_},
          {"grown", has_final_size_},
          {"outliers", outliers_},
          {"losses", losses_},
          {"window_size", configured_window()}};
}

void kill_loss_spike::restore(nlohmann::json const& saved) {
  if (saved.value("window_size", configured_window()) != configured_window()) return;
  window_ = std::clamp<std::int64_t>(saved.at("window").get<std::int64_t>(), 1, 1 << 30);
  has_final_size_ = saved.at("grown").get<bool>();
  outliers_ = saved.at("outliers").get<std::int64_t>();
  losses_ = saved.at("losses").get<std::deque<double>>();
  while (std::ssize(losses_) > window_) losses_.pop_front();
}

void kill_loss_spike::check(run_control& run, batch_result const& r) {
  double const mean =
      std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(window_);
  outliers_ = r.loss >= mean * config_.outlier_multiplier ? outliers_ + 1 : 0;
  if (outliers_ > config_.patience)
    return report(run, parallel::concat("batch ", r.batch, ": the loss ", r.loss, " has been ",
                                        config_.outlier_multiplier, " times the mean ", mean,
                                        " of the ", window_, " before for ", outliers_,
                                        " batches; lower the learning rate"));
  if (r.batch < 2 * window_) return;
  auto const high =
      std::ranges::count_if(losses_, [&](double loss) { return loss > config_.loss_cap; });
  if (2 * high >= window_)
    report(run,
           parallel::concat("batch ", r.batch, ": ", high, " of the last ", window_,
                            " losses are above ", config_.loss_cap, "; lower the learning rate"));
}

void kill_loss_spike::report(run_control& run, std::string const& text) const {
  if (!config_.log_only) throw parallel::diverged("kill_loss_spike: " + text);
  run.say("kill_loss_spike: " + text);
}

}  // namespace mpt
