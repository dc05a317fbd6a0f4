// batch_guard: what a run does about batches whose loss or gradient is not finite (on_not_finite)
// or a spike (spike_check), before they update anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/run_checkpoint.hpp>
#include <mpt/train/skipped_batches.hpp>
#include <mpt/train/spike_limits.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/step_limits.hpp>

namespace mpt {

/// All ranks tell theirs the same, and so come to the same conclusion.
class batch_guard {
 public:
  /// `config` is borrowed.
  explicit batch_guard(train_config const& config) : config_(config) {
    if (config.spike_check) spikes_.emplace(*config.spike_check);
  }

  /// Of the next batch.
  [[nodiscard]] parallel::train::step_limits limits() const {
    return spikes_ ? spikes_->limits() : parallel::train::step_limits{};
  }

  /// Of the batch after `finished`: which update it is does not depend on those that were skipped.
  [[nodiscard]] parallel::position position_after(std::int64_t finished) const {
    return {.seed = config_.seed,
            .step = static_cast<std::uint32_t>(finished),
            .updates = static_cast<std::uint32_t>(finished - skipped_.count())};
  }

  /// Of a batch that has updated.
  void record_update(batch_result const& r) {
    if (spikes_) spikes_->add(r.loss, r.gradient_norm);
  }

  /// Of a batch that has updated nothing: whether the run goes back to the last checkpoint or goes
  /// on as it is. Throws `diverged` when it is to stop.
  [[nodiscard]] bool must_roll_back(parallel::train::step_outcome outcome, batch_result const& r) {
    bool const spike = outcome == parallel::train::step_outcome::above_limit;
    why_ = spike ? spikes_->describe(r.loss, r.gradient_norm)
                 : "the loss or the gradient is not finite";
    auto const policy = spike ? config_.spike_check->on_spike : config_.on_not_finite;
    if (policy == bad_batch_policy::stop)
      parallel::fail<parallel::diverged>(
          "batch ", r.batch, ": ", why_,
          "; nothing was updated: lower the learning rate, resume from an earlier checkpoint, or "
          "set ",
          spike ? "spike_check.on_spike" : "on_not_finite", " to skip or roll_back");
    return policy == bad_batch_policy::roll_back;
  }

  /// The checkpoint `folder` to go back to from `batch`, or the one before, where that is damaged.
  /// Throws when there is none.
  [[nodiscard]] found_checkpoint rollback_checkpoint(std::filesystem::path const& folder,
                                                     std::int64_t batch) const {
    if (folder.empty())
      parallel::fail<parallel::diverged>("batch ", batch, ": ", why_,
                                         ", and there is no checkpoint yet to roll back to; save "
                                         "earlier, or skip such batches");
    return {folder, false, {}, parallel::checkpoint::if_damaged::set_aside};
  }

  /// The batches from `first` to `last`, of which that was asked last, leave no trace. Returns the
  /// sentence about it; throws when that has happened too often in a row.
  std::string skip(std::int64_t first, std::int64_t last) {
    return skipped_.add(first, last, why_);
  }

  /// What it remembers, for a checkpoint.
  void save(run_state& state) const {
    state.skipped = skipped_.state();
    if (spikes_) state.spikes = spikes_->state();
  }
  /// When a run goes on from a checkpoint.
  void restore(run_state const& saved) {
    skipped_.restore(saved.skipped);
    roll_back(saved);
  }
  /// When it has gone back to one.
  void roll_back(run_state const& saved) {
    if (spikes_) spikes_->restore(saved.spikes);
  }

 private:
  train_config const& config_;
  std::optional<spike_limits> spikes_;
  skipped_batches skipped_;
  std::string why_;  // the last one was refused
};

}  // namespace mpt
