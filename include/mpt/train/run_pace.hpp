// run_pace: the speed of a run and how its time is spent, since this program began to train.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <mpt/config/callbacks.hpp>
#include <mpt/config/time.hpp>
#include <mpt/train/matmul_rate.hpp>
#include <mpt/train/metrics.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/run_summary.hpp>

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
             training_clock const& clock_of_run) {
    last_.waited_seconds = data.waited_seconds();
    auto const in_epoch = batch % clock_of_run.batches_per_epoch;
    epoch_tokens_ = has_examples && in_epoch > 0 ? -1 : in_epoch * clock_of_run.tokens_per_batch;
    last_.time = clock::now();
    begin_ = last_;
    window_.emplace(batches_in_window_, last_);
    if (skipped_batches_ == 0) steady_.emplace(batches_in_window_, last_);
  }
  /// Records that a batch of `data` was trained, of which `labelled_tokens` tokens had a label.
  void record_batch(run_batches const& data, std::int64_t labelled_tokens, bool is_first_of_epoch) {
    if (is_first_of_epoch) epoch_tokens_ = 0;
    if (epoch_tokens_ >= 0) epoch_tokens_ += data.tokens();
    mark({clock::now(), last_.tokens + data.tokens(), data.waited_seconds(),
          last_.padded_tokens + data.padded_tokens(), last_.trained + labelled_tokens,
          last_.batches + 1});
  }
  void mark(instant instant_now) {
    last_ = instant_now;
    window_->mark(instant_now);
    if (steady_)
      steady_->mark(instant_now);
    else if (batches() == skipped_batches_)
      steady_.emplace(batches_in_window_, instant_now);
  }
  /// Excludes the time from `begin` until now, in which nothing was trained.
  void skip_since(clock::time_point begin) {
    auto const pause = window_->skip_since(begin);
    if (steady_) steady_->skip(pause);
    paused_ += pause;
  }
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
  [[nodiscard]] std::int64_t padded_tokens() const {
    return last_.padded_tokens - begin_.padded_tokens;
  }
  [[nodiscard]] double waited_seconds() const {
    return last_.waited_seconds - begin_.waited_seconds;
  }
  /// Stops the clock of training.
  void end() { end_ = clock::now(); }
  /// Seconds of training alone, until now or its end.
  [[nodiscard]] double training_seconds() const {
    return seconds_of(end_.value_or(clock::now()) - begin_.time - paused_);
  }
  /// Seconds until now of everything but evaluations, saving included, as Composer counts them.
  [[nodiscard]] double seconds_without_evaluation() const {
    return seconds_of(clock::now() - begin_.time - evaluated_while_training_);
  }
  /// Seconds of evaluations, those before training included.
  [[nodiscard]] double evaluation_seconds() const { return seconds_of(evaluated_); }
  /// Speed of the last batches. Requires that training has begun.
  [[nodiscard]] speed_window const& window() const { return *window_; }

  /// Estimated seconds until `remaining_batches` more batches are trained, evaluated and saved,
  /// from the speed of the last batches without the first runtime_estimator.skip_batches, and from
  /// the time of evaluations and saves so far. Nothing while those first batches are not over.
  [[nodiscard]] std::optional<double> remaining_seconds(std::int64_t remaining_batches) const {
    double const speed = steady_ ? steady_->batches_per_second() : 0.0;
    if (speed <= 0) return std::nullopt;
    auto const count = [](std::int64_t n) { return static_cast<double>(n); };
    double const other_pauses = seconds_of(paused_ - evaluated_while_training_);
    double out = count(remaining_batches) / speed +
                 other_pauses / count(batches()) * count(remaining_batches);
    if (batches_at_evaluation_ > 0)  // evaluations keep their distance in batches
      out += seconds_of(evaluated_while_training_) / count(batches_at_evaluation_) *
             count(remaining_batches + batches() - batches_at_evaluation_);
    return out;
  }

  [[nodiscard]] double mean_padded_tokens_per_second() const {
    return batches() == 0 ? 0 : static_cast<double>(padded_tokens()) / training_seconds();
  }

  /// Fills the summary at the end of a run with `rows` rows per batch.
  void summarize(run_summary& summary, utilisation use, watched_peak const& peak,
                 std::int64_t rows) const {
    summary.evaluation_seconds = evaluation_seconds();
    summary.batches_here = batches();
    summary.tokens = tokens_of_run();
    summary.trained_tokens = last_.trained;
    summary.peak_memory_bytes = peak_memory_bytes();
    use.peak_flops = summary.peak_flops = peak.flops();
    summary.peak_source = peak.source();
    if (batches() == 0) return;  // nothing was left to train
    double const seconds = training_seconds();
    summary.samples_per_second = static_cast<double>(batches() * rows) / seconds;
    set_speed(summary, use, {.training = seconds, .waiting_for_data = waited_seconds()}, tokens(),
              padded_tokens());
  }

 private:
  [[nodiscard]] static double seconds_of(clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

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
