#include <mpt/callbacks/early_stopper.hpp>

#include <cmath>

namespace mpt {

bool early_stopper::watches(std::string const& label) const {
  auto const& wanted = config_.dataloader_label;
  return label.empty() ? wanted == "eval" : wanted == label || wanted == "eval/" + label;
}

void early_stopper::batch_end(run_control& run, batch_result const& r) {
  if (config_.dataloader_label != "train") return;
  if (r.ends_epoch || config_.patience.unit == time_unit::batch)
    check(run, value_of(r.loss, r.accuracy), r.batch, r.epoch);
}

void early_stopper::evaluation_end(run_control& run, evaluation_report const& r) {
  if (watches(r.label)) check(run, value_of(r.loss, r.accuracy), r.batch, r.epoch);
}

nlohmann::json early_stopper::state() const {
  nlohmann::json saved = {{"has_best", has_best_},
                          {"settings", settings()},
                          {"patience", patience()},
                          {"reason", reason_}};
  if (has_best_) saved.update({{"best", best_}, {"batch", best_batch_}, {"epoch", best_epoch_}});
  return saved;
}

void early_stopper::restore(nlohmann::json const& saved) {
  // older checkpoints have the names `seen`, `of` and `why`
  bool const has_old_names = saved.contains("seen");
  bool const has_same_settings =
      saved.value(has_old_names ? "of" : "settings", settings()) == settings();
  has_best_ = saved.at(has_old_names ? "seen" : "has_best").get<bool>() && has_same_settings;
  if (has_same_settings && saved.value("patience", patience()) == patience())
    reason_ = saved.value(has_old_names ? "why" : "reason", "");
  if (!has_best_) return;
  best_ = saved.at("best").get<double>();
  best_batch_ = saved.at("batch").get<std::int64_t>();
  best_epoch_ = saved.at("epoch").get<std::int64_t>();
}

void early_stopper::resumed(run_control& run) const {
  if (!reason_.empty()) run.stop(reason_);
}

double early_stopper::value_of(double loss, double accuracy) const {
  if (config_.monitor == "TokenAccuracy") return accuracy;
  return config_.monitor == "LanguagePerplexity" ? std::exp(loss) : loss;
}

void early_stopper::check(run_control& run, double value, std::int64_t batch, std::int64_t epoch) {
  bool const is_better = config_.greater_is_better ? value > best_ : value < best_;
  if (!has_best_ || (is_better && std::abs(value - best_) > config_.min_delta)) {
    has_best_ = true;
    best_ = value;
    best_batch_ = batch;
    best_epoch_ = epoch;
  }
  bool const in_epochs = config_.patience.unit == time_unit::epoch;
  auto const elapsed = in_epochs ? epoch - best_epoch_ : batch - best_batch_;
  if (static_cast<double>(elapsed) <= config_.patience.count) return;
  reason_ = parallel::concat("early_stopper: ", config_.monitor, " of ", config_.dataloader_label,
                             " has been no better than ", best_, " for ", elapsed,
                             in_epochs ? " epochs" : " batches", "; training ends");
  run.stop(reason_);
}

nlohmann::json early_stopper::settings() const {
  return {{"monitor", config_.monitor},
          {"dataloader_label", config_.dataloader_label},
          {"min_delta", config_.min_delta},
          {"greater_is_better", config_.greater_is_better}};
}

}  // namespace mpt
