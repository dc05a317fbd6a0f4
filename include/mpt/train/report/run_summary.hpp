// run_summary: the results of a run, and the conversion of a step's sums into reported means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpt/callbacks/callback.hpp>
#include <mpt/console/format.hpp>
#include <mpt/train/evaluation/run_tasks.hpp>
#include <mpt/train/report/expected_step.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/report/profile.hpp>
#include <mpt/vocabulary.hpp>
#include <mpt/yaml/time.hpp>
#include <parallel/checkpoint/save_timer.hpp>
#include <parallel/train/stepper.hpp>

namespace mpt {

/// The results of a run; the same on every rank.
struct run_summary {
  std::int64_t batches = 0;
  std::int64_t skipped_batches = 0;  ///< of `batches`: those that updated nothing
  std::int64_t tokens = 0;           ///< of the whole run, earlier programs included
  double loss = 0;                   ///< of the last batch that was not skipped
  std::int64_t trained_tokens = 0;   ///< of this program, with a label
  double tokens_per_second = 0;
  double trained_tokens_per_second = 0;
  double mfu = 0;
  double mfu_causal = 0;
  double seconds = 0;              ///< of training in this program; 0: nothing was left to train
  std::int64_t batches_here = 0;   ///< batches of this program
  double samples_per_second = 0;   ///< rows
  double evaluation_seconds = 0;   ///< in this program
  double peak_memory_bytes = 0;    ///< resident set of this process, with all its ranks
  double device_memory_bytes = 0;  ///< largest peak of a rank's device memory
  std::vector<double> device_memory_by_rank;  ///< peaks in bytes
  double peak_flops = 0;                      ///< of all devices; MFU refers to it
  std::string peak_source;
  std::optional<evaluation_report> evaluation;   ///< last evaluation of the first set
  task_scores tasks;                             ///< last evaluation
  double data_wait_share = 0;                    ///< share of the time spent waiting for data
  std::string begun_from;                        ///< folder from which the run began; or ""
  std::string checkpoint;                        ///< the last one that was written or loaded
  bool stop_asked = false;                       ///< run_hooks::stop_asked ended the run early
  std::optional<step_seconds> expected_step;     ///< on rank 0, of a run with cluster
  std::optional<step_seconds> measured_step;     ///< the mean of those that were timed
  run_profile profile;                           ///< on rank 0, of a run with profile or measure
  parallel::checkpoint::save_costs saves;        ///< into save_folder
  parallel::checkpoint::save_costs local_saves;  ///< onto the nodes' own disks
};

/// The interval between saves, in seconds of training, that loses the least time, from the cost of
/// this run's saves and the failure rate of other large runs. Never less than a save takes; 0 if
/// there were no saves.
[[nodiscard]] double proposed_save_interval(parallel::checkpoint::save_costs const& saves,
                                            int devices);

/// Text such as "3 saves took 2.1 s each and held training up for 0.1 s each; ..."; "" when there
/// were none.
[[nodiscard]] std::string text_of_saves(run_summary const& s, int devices);

/// How a run has spent its time.
struct spent_seconds {
  double training = 0;
  double waiting_for_data = 0;  ///< part of `training`
};

/// Sets the speed of a run that trained `tokens`, or `padded_tokens` with padding, of which
/// summary.trained_tokens had a label.
void set_speed(run_summary& summary, utilisation const& peak, spent_seconds const& spent,
               std::int64_t tokens, std::int64_t padded_tokens);

/// The means over the loss tokens of the step that ended batch `batch`. `step` must outlive the
/// result.
[[nodiscard]] batch_result result_of(train::step_result<double> const& step, std::int64_t batch,
                                     training_clock const& clock);

/// The means over the evaluation set `label`.
[[nodiscard]] evaluation_report report_of(train::statistics<double> const& sums, std::string label,
                                          std::int64_t batch, training_clock const& clock);

/// A note on saves that stop training, because memory for a copy of `bytes` per rank is missing; ""
/// where they are written in the background.
[[nodiscard]] std::string note_on_saves(bool in_background, std::size_t bytes);

}  // namespace mpt
