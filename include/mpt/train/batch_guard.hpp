// batch_guard: decides what a run does with batches whose loss or gradient is not finite
// (on_not_finite) or a spike (spike_check), before they update anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/data/skipped_batches.hpp>
#include <mpt/train/spike_limits.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/step_limits.hpp>

namespace mpt {

/// Each rank has one. All ranks pass the same values to theirs, so that all decide the same.
class batch_guard {
 public:
  /// `run` must outlive it.
  explicit batch_guard(run_config const& run);

  /// The limits of the next batch.
  [[nodiscard]] parallel::train::step_limits limits() const;

  /// The position of the batch after batch `finished`. Its number of updates leaves out skipped
  /// batches.
  [[nodiscard]] parallel::position position_after(std::int64_t finished) const;

  /// Records a batch that has updated the parameters.
  void record_update(batch_result const& r);

  /// Whether, after a batch that has updated nothing, the run must go back to the last checkpoint
  /// rather than continue. Throws `diverged` where the policy is to stop.
  [[nodiscard]] bool must_roll_back(parallel::train::step_outcome outcome, batch_result const& r);

  /// The checkpoint `folder` to which the run goes back from `batch`; a damaged one is set aside
  /// for the one before. Throws if there is none.
  [[nodiscard]] found_checkpoint rollback_checkpoint(std::filesystem::path const& folder,
                                                     std::int64_t batch) const;

  /// Records that the batches from `first` to `last` leave no trace, for the reason of the last
  /// must_roll_back(). Returns a sentence about it; throws after too many in a row.
  std::string skip(std::int64_t first, std::int64_t last);

  /// The number of batches of the whole run that left no trace.
  [[nodiscard]] std::int64_t skipped_batch_count() const { return skipped_.count(); }

  /// Writes its state into the state of a checkpoint.
  void save(run_state& state) const;
  /// Restores the state of a run that resumes from a checkpoint.
  void restore(run_state const& saved);
  /// Restores the state of a run that has gone back to a checkpoint.
  void roll_back(run_state const& saved);

 private:
  run_config const& run_;
  std::optional<spike_limits> spikes_;
  skipped_batches skipped_;
  std::string reason_;  // why the last batch was refused
};

}  // namespace mpt
