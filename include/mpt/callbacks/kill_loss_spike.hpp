// kill_loss_spike: detects losses far above the recent ones, and losses that stay high.
//
// The rule is LLM Foundry's, over a full window of the last losses. A spike is more than `patience`
// consecutive batches whose losses are at least `outlier_multiplier` times the window's mean. A
// high loss is a window of which at least half is above `loss_cap`, once the run is two windows
// long. The window is 100 batches and grows to a twentieth of the run after the first hundred.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/run/callbacks.hpp>

namespace mpt {

class kill_loss_spike {
 public:
  static constexpr std::string_view name = "kill_loss_spike";

  kill_loss_spike(loss_spike_config config, std::int64_t total_batches)
      : config_(std::move(config)),
        window_(config_.window_size.value_or(first_window)),
        has_final_size_(config_.window_size.has_value()),
        total_batches_(total_batches) {}

  void batch_end(run_control& run, batch_result const& r);

  [[nodiscard]] nlohmann::json state() const;
  /// A state that was saved with another window_size is discarded.
  void restore(nlohmann::json const& saved);

 private:
  static constexpr std::int64_t first_window = 100;

  /// The window size in the configuration; 0: none.
  [[nodiscard]] std::int64_t configured_window() const { return config_.window_size.value_or(0); }

  [[nodiscard]] bool is_full() const { return std::ssize(losses_) == window_; }

  void check(run_control& run, batch_result const& r);

  void report(run_control& run, std::string const& text) const;

  loss_spike_config config_;
  std::int64_t window_;
  bool has_final_size_;  // of the window
  std::int64_t total_batches_;
  std::int64_t outliers_ = 0;
  std::deque<double> losses_;
};

}  // namespace mpt
