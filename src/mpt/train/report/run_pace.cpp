#include <mpt/train/report/run_pace.hpp>

#include <chrono>

namespace mpt {

void run_pace::begin(run_batches const& data, std::int64_t batch, bool has_examples,
                     training_clock const& clock_of_run) {
  last_.waited_seconds = data.waited_seconds();
  auto const in_epoch = batch % clock_of_run.batches_per_epoch;
  epoch_tokens_ = has_examples && in_epoch > 0 ? -1 : in_epoch * clock_of_run.tokens_per_batch;
  last_.time = clock::now();
  begin_ = last_;
  window_.emplace(batches_in_window_, last_);
  if (skipped_batches_ == 0) steady_.emplace(batches_in_window_, last_);
}

void run_pace::record_batch(run_batches const& data, std::int64_t labelled_tokens,
                            bool is_first_of_epoch) {
  if (is_first_of_epoch) epoch_tokens_ = 0;
  if (epoch_tokens_ >= 0) epoch_tokens_ += data.tokens();
  mark({clock::now(), last_.tokens + data.tokens(), data.waited_seconds(),
        last_.padded_tokens + data.padded_tokens(), last_.trained + labelled_tokens,
        last_.batches + 1});
}

void run_pace::mark(instant instant_now) {
  last_ = instant_now;
  window_->mark(instant_now);
  if (steady_)
    steady_->mark(instant_now);
  else if (batches() == skipped_batches_)
    steady_.emplace(batches_in_window_, instant_now);
}

void run_pace::skip_since(clock::time_point begin) {
  auto const pause = window_->skip_since(begin);
  if (steady_) steady_->skip(pause);
  paused_ += pause;
}

std::int64_t run_pace::padded_tokens() const { return last_.padded_tokens - begin_.padded_tokens; }

double run_pace::waited_seconds() const { return last_.waited_seconds - begin_.waited_seconds; }

double run_pace::training_seconds() const {
  return seconds_of(end_.value_or(clock::now()) - begin_.time - paused_);
}

double run_pace::seconds_without_evaluation() const {
  return seconds_of(clock::now() - begin_.time - evaluated_while_training_);
}

std::optional<double> run_pace::remaining_seconds(std::int64_t remaining_batches) const {
  double const speed = steady_ ? steady_->batches_per_second() : 0.0;
  if (speed <= 0) return std::nullopt;
  auto const count = [](std::int64_t n) { return static_cast<double>(n); };
  double const other_pauses = seconds_of(paused_ - evaluated_while_training_);
  double out =
      count(remaining_batches) / speed + other_pauses / count(batches()) * count(remaining_batches);
  if (batches_at_evaluation_ > 0)  // evaluations keep their distance in batches
    out += seconds_of(evaluated_while_training_) / count(batches_at_evaluation_) *
           count(remaining_batches + batches() - batches_at_evaluation_);
  return out;
}

double run_pace::mean_padded_tokens_per_second() const {
  return batches() == 0 ? 0 : static_cast<double>(padded_tokens()) / training_seconds();
}

void run_pace::summarize(run_summary& summary, utilisation use, watched_peak const& peak,
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

double run_pace::seconds_of(clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace mpt
