// kill_loss_spike: notices losses far above those before, and losses that stay high.
//
// The rule is LLM Foundry's. Over a full window of the last losses: more than `patience` batches in
// a row at `outlier_multiplier` times its mean are a spike; after two windows' length, half of them
// above `loss_cap` are a high loss. The window is 100 batches, and after the first hundred grows to
// a twentieth of the run.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <string_view>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/callbacks.hpp>
#include <parallel/core/failures.hpp>

namespace mpt {

class kill_loss_spike {
 public:
  static constexpr std::string_view name = "kill_loss_spike";

  kill_loss_spike(loss_spike_config config, std::int64_t total_batches)
      : config_(std::move(config)),
        window_(config_.window_size.value_or(first_window)),
        grown_(config_.window_size.has_value()),
        total_batches_(total_batches) {}

  void batch_end(run_control& run, batch_result const& r) {
    if (full()) {
      if (!grown_) {
        grown_ = true;
        window_ = std::max<std::int64_t>(window_,
                                         std::llround(static_cast<double>(total_batches_) * 0.05));
      }
      if (full()) look(run, r);
    }
    losses_.push_back(r.loss);
    if (std::ssize(losses_) > window_) losses_.pop_front();
  }

  [[nodiscard]] nlohmann::json state() const {
    return {{"window", window_},
            {"grown", grown_},
            {"outliers", outliers_},
            {"losses", losses_},
            {"window_size", asked()}};
  }
  /// With another window_size than it was saved with it begins afresh.
  void restore(nlohmann::json const& saved) {
    if (saved.value("window_size", asked()) != asked()) return;
    window_ = std::clamp<std::int64_t>(saved.at("window").get<std::int64_t>(), 1, 1 << 30);
    grown_ = saved.at("grown").get<bool>();
    outliers_ = saved.at("outliers").get<std::int64_t>();
    losses_ = saved.at("losses").get<std::deque<double>>();
    while (std::ssize(losses_) > window_) losses_.pop_front();
  }

 private:
  static constexpr std::int64_t first_window = 100;

  /// The window that the configuration names; 0: none.
  [[nodiscard]] std::int64_t asked() const { return config_.window_size.value_or(0); }

  [[nodiscard]] bool full() const { return std::ssize(losses_) == window_; }

  void look(run_control& run, batch_result const& r) {
    double const mean =
        std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(window_);
    outliers_ = r.loss >= mean * config_.outlier_multiplier ? outliers_ + 1 : 0;
    if (outliers_ > config_.patience)
      return tell(run, parallel::concat("batch ", r.batch, ": the loss ", r.loss, " has been ",
                                        config_.outlier_multiplier, " times the mean ", mean,
                                        " of the ", window_, " before for ", outliers_,
                                        " batches; lower the learning rate"));
    if (r.batch < 2 * window_) return;
    auto const high =
        std::ranges::count_if(losses_, [&](double loss) { return loss > config_.loss_cap; });
    if (2 * high >= window_)
      tell(run,
           parallel::concat("batch ", r.batch, ": ", high, " of the last ", window_,
                            " losses are above ", config_.loss_cap, "; lower the learning rate"));
  }

  void tell(run_control& run, std::string const& text) const {
    if (!config_.log_only) throw parallel::diverged("kill_loss_spike: " + text);
    run.say("kill_loss_spike: " + text);
  }

  loss_spike_config config_;
  std::int64_t window_;
  bool grown_;  // the window has its final size
  std::int64_t total_batches_;
  std::int64_t outliers_ = 0;
  std::deque<double> losses_;
};

}  // namespace mpt
