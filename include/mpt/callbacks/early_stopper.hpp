// early_stopper: ends the run when a metric has not improved for `patience` (Composer's rule).
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/callbacks.hpp>

namespace mpt {

class early_stopper {
 public:
  static constexpr std::string_view name = "early_stopper";

  explicit early_stopper(early_stopper_config config) : config_(std::move(config)) {}

  /// Whether it looks at the evaluation set of this label ("" when there is only one).
  [[nodiscard]] bool watches(std::string const& label) const {
    auto const& wanted = config_.dataloader_label;
    return label.empty() ? wanted == "eval" : wanted == label || wanted == "eval/" + label;
  }

  /// A training metric is looked at when an epoch ends, and with a patience in batches always.
  void batch_end(run_control& run, batch_result const& r) {
    if (config_.dataloader_label != "train") return;
    if (r.ends_epoch || config_.patience.unit == time_unit::batch)
      look(run, value_of(r.loss, r.accuracy), r.batch, r.epoch);
  }

  void evaluation_end(run_control& run, evaluation_report const& r) {
    if (watches(r.label)) look(run, value_of(r.loss, r.accuracy), r.batch, r.epoch);
  }

  [[nodiscard]] nlohmann::json state() const {
    nlohmann::json out = {
        {"seen", seen_}, {"of", settings()}, {"patience", patience()}, {"why", why_}};
    if (seen_) out.update({{"best", best_}, {"batch", best_batch_}, {"epoch", best_epoch_}});
    return out;
  }
  /// What was the best by other settings says nothing; with the same, and the same patience, a run
  /// that had stopped stops again.
  void restore(nlohmann::json const& saved) {
    bool const is_ours = saved.value("of", settings()) == settings();
    seen_ = saved.at("seen").get<bool>() && is_ours;
    if (is_ours && saved.value("patience", patience()) == patience()) why_ = saved.value("why", "");
    if (!seen_) return;
    best_ = saved.at("best").get<double>();
    best_batch_ = saved.at("batch").get<std::int64_t>();
    best_epoch_ = saved.at("epoch").get<std::int64_t>();
  }
  void resumed(run_control& run) const {
    if (!why_.empty()) run.stop(why_);
  }

 private:
  [[nodiscard]] double value_of(double loss, double accuracy) const {
    if (config_.monitor == "TokenAccuracy") return accuracy;
    return config_.monitor == "LanguagePerplexity" ? std::exp(loss) : loss;
  }

  void look(run_control& run, double value, std::int64_t batch, std::int64_t epoch) {
    bool const better = config_.greater_is_better ? value > best_ : value < best_;
    if (!seen_ || (better && std::abs(value - best_) > config_.min_delta)) {
      seen_ = true;
      best_ = value;
      best_batch_ = batch;
      best_epoch_ = epoch;
    }
    bool const in_epochs = config_.patience.unit == time_unit::epoch;
    auto const waited = in_epochs ? epoch - best_epoch_ : batch - best_batch_;
    if (static_cast<double>(waited) <= config_.patience.count) return;
    why_ = parallel::concat("early_stopper: ", config_.monitor, " of ", config_.dataloader_label,
                            " has been no better than ", best_, " for ", waited,
                            in_epochs ? " epochs" : " batches", "; training ends");
    run.stop(why_);
  }

  [[nodiscard]] std::string patience() const { return to_string(config_.patience); }
  /// All that decides what is better.
  [[nodiscard]] nlohmann::json settings() const {
    return {{"monitor", config_.monitor},
            {"dataloader_label", config_.dataloader_label},
            {"min_delta", config_.min_delta},
            {"greater_is_better", config_.greater_is_better}};
  }

  early_stopper_config config_;
  bool seen_ = false;
  double best_ = 0;
  std::int64_t best_batch_ = 0;
  std::int64_t best_epoch_ = 0;
  std::string why_;  // it stopped the run
};

}  // namespace mpt
