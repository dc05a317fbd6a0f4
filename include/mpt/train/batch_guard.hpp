// batch_guard: decides what a run does with batches whose loss or gradient is not finite
// (on_not_finite) or a spike (spike_check), before they update anything.
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

/// Each rank has one. All ranks pass the same values to theirs, so that all decide the same.
class batch_guard {
 public:
  /// `config` must outlive it.
  explicit batch_guard(train_config const& config) : config_(config) {
    if (config.spike_check) spikes_.emplace(*config.spike_check);
  }

  /// The limits of the next batch.
  [[nodiscard]] parallel::train::step_limits limits() const {
    return spikes_ ? spikes_->limits() : parallel::train::step_limits{};
  }

  /// The position of the batch after batch `finished`. Its number of updates leaves out skipped
  /// batches.
  [[nodiscard]] parallel::position position_after(std::int64_t finished) const {
    return {.seed = config_.seed,
            .step = static_cast<std::uint32_t>(finished),
            .updates = static_cast<std::uint32_t>(finished - skipped_.count())};
  }

  /// Records a batch that has updated the parameters.
  void record_update(batch_result const& r) {
    if (spikes_) spikes_->add(r.loss, r.gradient_norm);
  }

  /// Whether, after a batch that has updated nothing, the run must go back to the last checkpoint
  /// rather than continue. Throws `diverged` where the policy is to stop.
  [[nodiscard]] bool must_roll_back(parallel::train::step_outcome outcome, batch_result const& r) {
    bool const is_spike = outcome == parallel::train::step_outcome::above_limit;
    reason_ = is_spike ? spikes_->describe(r.loss, r.gradient_norm)
                       : "the loss or the gradient is not finite";
    auto const policy = is_spike ? config_.spike_check->on_spike : config_.on_not_finite;
    if (policy == bad_batch_policy::stop)
      parallel::fail<parallel::diverged>(
          "batch ", r.batch, ": ", reason_,
          "; nothing was updated: lower the learning rate, resume from an earlier checkpoint, or "
          "set ",
          is_spike ? "spike_check.on_spike" : "on_not_finite", " to skip or roll_back");
    return policy == bad_batch_policy::roll_back;
  }

  /// The checkpoint `folder` to which the run goes back from `batch`; a damaged one is set aside
  /// for the one before. Throws where there is none.
  [[nodiscard]] found_checkpoint rollback_checkpoint(std::filesystem::path const& folder,
                                                     std::int64_t batch) const {
    if (folder.empty())
      parallel::fail<parallel::diverged>("batch ", batch, ": ", reason_,
                                         ", and there is no checkpoint yet to roll back to; save "
                                         "earlier, or skip such batches");
    return {folder, false, {}, parallel::checkpoint::if_damaged::set_aside};
  }

  /// Records that the batches from `first` to `last` leave no trace, for the reason of the last
  /// must_roll_back(). Returns a sentence about it; throws after too many in a row.
  std::string skip(std::int64_t first, std::int64_t last) {
    return skipped_.add(first, last, reason_);
  }

  /// Writes its state into the state of a checkpoint.
  void save(run_state& state) const {
    state.skipped = skipped_.state();
    if (spikes_) state.spikes = spikes_->state();
  }
  /// Restores the state of a run that resumes from a checkpoint.
  void restore(run_state const& saved) {
    skipped_.restore(saved.skipped);
    roll_back(saved);
  }
  /// Restores the state of a run that has gone back to a checkpoint.
  void roll_back(run_state const& saved) {
    if (spikes_) spikes_->restore(saved.spikes);
  }

 private:
  train_config const& config_;
  std::optional<spike_limits> spikes_;
  skipped_batches skipped_;
  std::string reason_;  // why the last batch was refused
};

}  // namespace mpt
