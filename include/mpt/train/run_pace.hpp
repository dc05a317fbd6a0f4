// run_pace: how fast a run goes and where its time goes, since this program began to train.
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

  /// A run goes on behind so many tokens.
  void resume_at(std::int64_t tokens) { last_.tokens = tokens; }
  /// Training begins behind `batch` batches of `data`: examples, or texts, which fill their rows.
  void begin(run_batches const& data, std::int64_t batch, bool of_examples,
             training_clock const& in_epochs) {
    last_.waited_seconds = data.waited_seconds();
    auto const in_epoch = batch % in_epochs.batches_per_epoch;
    epoch_tokens_ = of_examples && in_epoch > 0 ? -1 : in_epoch * in_epochs.tokens_per_batch;
    last_.time = clock::now();
    begin_ = last_;
    window_.emplace(batches_in_window_, last_);
    if (skipped_batches_ == 0) steady_.emplace(batches_in_window_, last_);
  }
  /// A batch of `data` was trained, of which so many tokens had a label.
  void record_batch(run_batches const& data, std::int64_t labelled, bool begins_epoch) {
    if (begins_epoch) epoch_tokens_ = 0;
    if (epoch_tokens_ >= 0) epoch_tokens_ += data.tokens();
    mark({clock::now(), last_.tokens + data.tokens(), data.waited_seconds(),
          last_.padded_tokens + data.padded_tokens(), last_.trained + labelled, last_.batches + 1});
  }
  void mark(instant now) {
    last_ = now;
    window_->mark(now);
    if (steady_)
      steady_->mark(now);
    else if (batches() == skipped_batches_)
      steady_.emplace(batches_in_window_, now);
  }
  /// Leaves the time from `begin` until now, in which there was no training, out of it.
  void skip_since(clock::time_point begin) {
    auto const pause = window_->skip_since(begin);
    if (steady_) steady_->skip(pause);
    paused_ += pause;
  }
  /// Calls evaluate(), whose time is that of an evaluation.
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

  /// Of the run, without padding.
  [[nodiscard]] std::int64_t tokens_of_run() const { return last_.tokens; }
  /// Of its epoch under way; negative where a run of examples goes on within one.
  [[nodiscard]] std::int64_t tokens_of_epoch() const { return epoch_tokens_; }
  /// Since training began; 0 before.
  [[nodiscard]] std::int64_t batches() const { return last_.batches - begin_.batches; }
  [[nodiscard]] std::int64_t tokens() const { return last_.tokens - begin_.tokens; }
  [[nodiscard]] std::int64_t padded_tokens() const {
    return last_.padded_tokens - begin_.padded_tokens;
  }
  [[nodiscard]] double waited_seconds() const {
    return last_.waited_seconds - begin_.waited_seconds;
  }
  /// Training has ended.
  void end() { end_ = clock::now(); }
  /// Of training alone, until now or its end.
  [[nodiscard]] double training_seconds() const {
    return seconds_of(end_.value_or(clock::now()) - begin_.time - paused_);
  }
  /// Of all but evaluations, until now, as Composer counts it: saving too.
  [[nodiscard]] double seconds_without_evaluation() const {
    return seconds_of(clock::now() - begin_.time - evaluated_while_training_);
  }
  /// Of evaluations, those before training too.
  [[nodiscard]] double evaluation_seconds() const { return seconds_of(evaluated_); }
  /// Speed of the last batches. Only once training has begun.
  [[nodiscard]] speed_window const& window() const { return *window_; }

  /// Seconds until `left` more batches are trained, evaluated and saved, by the speed of the last
  /// batches but the first runtime_estimator.skip_batches, and by what evaluations and saves have
  /// taken so far; none: those batches are yet to come.
  [[nodiscard]] std::optional<double> remaining_seconds(std::int64_t left) const {
    double const speed = steady_ ? steady_->batches_per_second() : 0.0;
    if (speed <= 0) return std::nullopt;
    auto const count = [](std::int64_t n) { return static_cast<double>(n); };
    double const other_pauses = seconds_of(paused_ - evaluated_while_training_);
    double out = count(left) / speed + other_pauses / count(batches()) * count(left);
    if (batches_at_evaluation_ > 0)  // each comes as many batches after the last as it did
      out += seconds_of(evaluated_while_training_) / count(batches_at_evaluation_) *
             count(left + batches() - batches_at_evaluation_);
    return out;
  }

  [[nodiscard]] double mean_padded_tokens_per_second() const {
    return batches() == 0 ? 0 : static_cast<double>(padded_tokens()) / training_seconds();
  }

  /// At the end of a run of `rows` rows a batch.
  void summarize(run_summary& summary, utilisation of, watched_peak const& peak,
                 std::int64_t rows) const {
    summary.evaluation_seconds = evaluation_seconds();
    summary.batches_here = batches();
    summary.tokens = tokens_of_run();
    summary.trained_tokens = last_.trained;
    summary.peak_memory_bytes = peak_memory_bytes();
    of.peak_flops = summary.peak_flops = peak.flops();
    summary.peak_source = peak.source();
    if (batches() == 0) return;  // nothing was left to train
    double const seconds = training_seconds();
    summary.samples_per_second = static_cast<double>(batches() * rows) / seconds;
    set_speed(summary, of, {.training = seconds, .waiting_for_data = waited_seconds()}, tokens(),
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
  std::optional<speed_window> steady_;  // without the first batches
  clock::duration paused_{};            // evaluations and all else, since training began
  clock::duration evaluated_{};
  clock::duration evaluated_while_training_{};
  std::int64_t batches_at_evaluation_ = 0;  // when the last one ended
};

}  // namespace mpt
