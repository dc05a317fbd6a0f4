// kill_loss_spike: detects losses far above the recent ones, and losses that stay high.
//
// The rule is LLM Foundry's, over a full window of the last losses. A spike is more than `patience`
// consecutive batches whose losses are at least `outlier_multiplier` times the window's mean. A
// high loss is a window of which at least half is above `loss_cap`, once the run is two windows
// long. The window is 100 batches and grows to a twentieth of the run after the first hundred.
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
        has_final_size_(config_.window_size.has_value()),
        total_batches_(total_batches) {}

  void batch_end(run_control& run, batch_result const& r) {
    if (is_full()) {
      if (!has_final_size_) {
        has_final_size_ = true;
        window_ = std::max<std::int64_t>(window_,
                                         std::llround(static_cast<double>(total_batches_) * 0.05));
      }
      if (is_full()) check(run, r);
    }
    losses_.push_back(r.loss);
    if (std::ssize(losses_) > window_) losses_.pop_front();
  }

  [[nodiscard]] nlohmann::json state() const {
    return {{"window", window_},
            {"grown", has_final_size_},
            {"outliers", outliers_},
            {"losses", losses_},
            {"window_size", configured_window()}};
  }
  /// A state that was saved with another window_size is discarded.
  void restore(nlohmann::json const& saved) {
    if (saved.value("window_size", configured_window()) != configured_window()) return;
    window_ = std::clamp<std::int64_t>(saved.at("window").get<std::int64_t>(), 1, 1 << 30);
    has_final_size_ = saved.at("grown").get<bool>();
    outliers_ = saved.at("outliers").get<std::int64_t>();
    losses_ = saved.at("losses").get<std::deque<double>>();
    while (std::ssize(losses_) > window_) losses_.pop_front();
  }

 private:
  static constexpr std::int64_t first_window = 100;

  /// The window size in the configuration; 0: none.
  [[nodiscard]] std::int64_t configured_window() const { return config_.window_size.value_or(0); }

  [[nodiscard]] bool is_full() const { return std::ssize(losses_) == window_; }

  void check(run_control& run, batch_result const& r) {
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

  void report(run_control& run, std::string const& text) const {
    if (!config_.log_only) throw parallel::diverged("kill_loss_spike: " + text);
    run.say("kill_loss_spike: " + text);
  }

  loss_spike_config config_;
  std::int64_t window_;
  bool has_final_size_;  // of the window
  std::int64_t total_batches_;
  std::int64_t outliers_ = 0;
  std::deque<double> losses_;
};

}  // namespace mpt
