// early_stopper: stops the run when a metric has not improved for `patience` (Composer's rule).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/run/callbacks.hpp>

namespace mpt {

class early_stopper {
 public:
  static constexpr std::string_view name = "early_stopper";

  explicit early_stopper(early_stopper_config config) : config_(std::move(config)) {}

  /// Whether the callback watches the evaluation set of this label ("" when there is only one).
  [[nodiscard]] bool watches(std::string const& label) const;

  /// Checks a training metric at the end of an epoch, or after every batch when the patience is in
  /// batches.
  void batch_end(run_control& run, batch_result const& r);

  void evaluation_end(run_control& run, evaluation_report const& r);

  [[nodiscard]] nlohmann::json state() const;
  /// A best value that was saved with other settings is discarded. With the same settings and
  /// patience, a run that this callback had stopped stops again.
  void restore(nlohmann::json const& saved);
  void resumed(run_control& run) const;

 private:
  [[nodiscard]] double value_of(double loss, double accuracy) const;

  void check(run_control& run, double value, std::int64_t batch, std::int64_t epoch);

  [[nodiscard]] std::string patience() const { return to_string(config_.patience); }
  /// The settings that decide which of two values is better.
  [[nodiscard]] nlohmann::json settings() const;

  early_stopper_config config_;
  bool has_best_ = false;
  double best_ = 0;
  std::int64_t best_batch_ = 0;
  std::int64_t best_epoch_ = 0;
  std::string reason_;  // why this callback stopped the run; empty: it did not
};

}  // namespace mpt
