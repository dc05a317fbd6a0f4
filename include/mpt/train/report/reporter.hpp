// reporter: writes the reports of a run to the console, to its metrics file and to its journal.
// Rank 0 has one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/log/event_file.hpp>
#include <mpt/log/run_journal.hpp>
#include <mpt/log/tracker.hpp>
#include <mpt/train/evaluation/run_tasks.hpp>
#include <mpt/train/report/csv_file.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/report/run_pace.hpp>

namespace mpt {

/// The values reported for one finished batch.
struct batch_record {
  std::int64_t batch = 0;  ///< finished batches, this one included
  std::int64_t total_batches = 0;
  std::int64_t epoch = 0;         ///< epoch of the batch, from 0
  std::int64_t tokens = 0;        ///< tokens of the run so far, without padding
  std::int64_t epoch_tokens = 0;  ///< tokens of its epoch so far; negative: unknown
  double loss = 0;                ///< mean over the batch's loss tokens
  double accuracy = 0;
  double gradient_norm = 0;
  std::vector<std::pair<std::string, double>> learning_rates = {};  ///< by group name
  utilisation peak = {};
  std::int64_t microbatch = 0;  ///< sequences
  double batches_per_second = 0;
  double padded_tokens_per_second = 0;  ///< tokens and padding
  double tokens_per_second = 0;
  double trained_tokens_per_second = 0;  ///< tokens with a label
  /// Share of the last batches' time on rank 0; a maximum over ranks would cost an exchange per
  /// batch
  double data_wait_share = 0;
  double saving_seconds = 0;              ///< for which saving has stopped training
  double seconds = 0;                     ///< of training, since the program began to train
  double seconds_without_evaluation = 0;  ///< of everything but evaluations, since then
  double evaluation_seconds = 0;
  std::optional<double> remaining_seconds = {};             ///< estimated
  double memory_bytes = 0;                                  ///< the peak so far
  std::vector<std::pair<std::string, double>> device = {};  ///< readings of the device

  /// Fills in the speed of the last batches and how the time was spent.
  void add_pace(run_pace const& pace);
};

class reporter {
 public:
  /// `first_batch`: the first batch that will be reported. `open_trackers` may be empty.
  /// `total_batches`: of the run; 0: unknown.
  reporter(data_config const& data, checkpoint_config const& checkpoint,
           callbacks_config const& callbacks, output_config const& output, int ranks,
           std::int64_t first_batch, tracker_opener const& open_trackers = {},
           std::int64_t total_batches = 0);
  reporter(reporter&&) = delete;

  /// Without `finish` the run has failed: ends the trackers so, and shows their messages.
  ~reporter();

  /// Prints a note after `batch` batches, and writes it into the journal.
  void note(std::string const& text, std::int64_t batch);

  /// Reports a batch; `control` holds the values that callbacks add.
  void batch(batch_record const& r, training_clock const& clock, run_control const& control);

  void evaluation(std::string const& label, std::int64_t batch, double loss, double accuracy,
                  std::int64_t tokens);

  void tasks(task_scores const& scores, std::int64_t batch);

  /// Writes the peaks of device memory, by rank in bytes, into the journal; nothing if there
  /// are none.
  void memory(std::vector<double> const& by_rank, std::int64_t batch);

  /// The program has to end soon: `finish` waits for no tracker longer than some seconds.
  void hurry();

  /// Ends the trackers. Throws a storage_error when metrics, events or notes were lost.
  void finish();

 private:
  /// Prints a line of an evaluation, and writes it into the journal.
  void print_evaluation(std::string const& text, std::int64_t batch);

  /// The values that Composer's trainer and monitors log for a batch, with their names and units,
  /// and our own values.
  [[nodiscard]] nlohmann::ordered_json numbers_of(batch_record const& r,
                                                  training_clock const& clock) const;

  /// Writes a record as one line of the metrics file and one row of the table, and its numbers for
  /// TensorBoard, and hands it to the trackers.
  void write(nlohmann::ordered_json const& record, std::int64_t batch);

  /// Shows the messages of trackers.
  void show_notes();

  bool shows_bar_;
  bool logs_to_console_;
  time_value log_interval_;
  int ranks_;
  std::int64_t rows_;  // per batch
  logged_time_unit time_unit_, remaining_unit_;
  metrics_file file_;
  run_journal journal_;
  std::optional<event_file> events_;
  std::optional<csv_file> table_;
  std::vector<std::unique_ptr<tracker>> trackers_;
  bool has_optimizer_monitor_;
  bool is_finetuning_;
  console::progress bar_;
};

}  // namespace mpt
