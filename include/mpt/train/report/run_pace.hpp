// run_pace: the speed of a run and how its time is spent, since this program began to train.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <mpt/config/run/callbacks.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/setup/matmul_rate.hpp>
#include <mpt/yaml/time.hpp>

namespace mpt {

class run_pace {
 public:
  using clock = speed_window::clock;
  using instant = speed_window::instant;

  explicit run_pace(callbacks_config const& callbacks)
      : batches_in_window_(static_cast<std::size_t>(callbacks.speed_window)),
        skipped_batches_(callbacks.remaining_skip_batches) {}

  /// Continues a run that has trained `tokens` tokens.
  void resume_at(std::int64_t tokens) { last_.tokens = tokens; }
  /// Starts the clock of training, after `batch` batches of `data`. Its rows hold examples
  /// (`has_examples`) or text, which fills its rows.
  void begin(run_batches const& data, std::int64_t batch, bool has_examples,
             training_clock const& clock_of_run);
  /// Records that a batch of `data` was trained, of which `labelled_tokens` tokens had a label.
  void record_batch(run_batches const& data, std::int64_t labelled_tokens, bool is_first_of_epoch);
  void mark(instant instant_now);
  /// Excludes the time from `begin` until now, in which nothing was trained.
  void skip_since(clock::time_point begin);
  /// Calls evaluate() and counts its time as evaluation.
  template <class Evaluate>
  void evaluate(Evaluate const& evaluate) {
    auto const begin = clock::now();
    evaluate();
    auto const spent = clock::now() - begin;
    evaluated_ += spent;
    if (!window_) return;  // before training
    evaluated_while_training_ += spent;
    batches_at_evaluation_ = batches();
  }

  /// Tokens of the run, without padding.
  [[nodiscard]] std::int64_t tokens_of_run() const { return last_.tokens; }
  /// Tokens of the current epoch; negative (unknown) where a run of examples resumed within the
  /// epoch.
  [[nodiscard]] std::int64_t tokens_of_epoch() const { return epoch_tokens_; }
  /// Counts since training began; 0 before.
  [[nodiscard]] std::int64_t batches() const { return last_.batches - begin_.batches; }
  [[nodiscard]] std::int64_t tokens() const { return last_.tokens - begin_.tokens; }
  [[nodiscard]] std::int64_t padded_tokens() const;
  [[nodiscard]] double waited_seconds() const;
  /// Stops the clock of training.
  void end() { end_ = clock::now(); }
  /// Seconds of training alone, until now or its end.
  [[nodiscard]] double training_seconds() const;
  /// Seconds until now of everything but evaluations, saving included, as Composer counts them.
  [[nodiscard]] double seconds_without_evaluation() const;
  /// Seconds of evaluations, those before training included.
  [[nodiscard]] double evaluation_seconds() const { return seconds_of(evaluated_); }
  /// Speed of the last batches. Requires that training has begun.
  [[nodiscard]] speed_window const& window() const { return *window_; }

  /// Estimated seconds until `remaining_batches` more batches are trained, evaluated and saved,
  /// from the speed of the last batches without the first runtime_estimator.skip_batches, and from
  /// the time of evaluations and saves so far. Nothing while those first batches are not over.
  [[nodiscard]] std::optional<double> remaining_seconds(std::int64_t remaining_batches) const;

  [[nodiscard]] double mean_padded_tokens_per_second() const;

  /// Fills the summary at the end of a run with `rows` rows per batch.
  void summarize(run_summary& summary, utilisation use, watched_peak const& peak,
                 std::int64_t rows) const;

 private:
  [[nodiscard]] static double seconds_of(clock::duration time);

  std::size_t batches_in_window_;
  std::int64_t skipped_batches_;
  instant begin_, last_;
  std::optional<clock::time_point> end_;
  std::int64_t epoch_tokens_ = 0;
  std::optional<speed_window> window_;
  std::optional<speed_window> steady_;  // excludes the first batches
  clock::duration paused_{};            // all pauses since training began, evaluations included
  clock::duration evaluated_{};
  clock::duration evaluated_while_training_{};
  std::int64_t batches_at_evaluation_ = 0;  // batches when the last evaluation ended
};

}  // namespace mpt
