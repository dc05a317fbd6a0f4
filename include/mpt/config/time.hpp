// Time strings (`4800ba`, `1ep`, `2e9tok`, `512sp`, `0.02dur`) and what they mean in batches.
//
// As in Composer: `dur` is a fraction of max_duration; the others are whole counts. A training
// clock says how many samples and tokens a batch has; then any time is a number of batches, and one
// that falls inside a batch is reached when that batch ends.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <mpt/config/node.hpp>
#include <mpt/config/scalar.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

enum class time_unit { epoch, batch, sample, token, duration };

/// An amount of training: a whole count, or a fraction of max_duration.
struct time_value {
  double count = 0;  ///< whole and below 2^53, except for time_unit::duration
  time_unit unit = time_unit::batch;

  friend bool operator==(time_value const&, time_value const&) = default;
};

/// "ep", "ba", "sp", "tok" or "dur".
[[nodiscard]] constexpr std::string_view suffix_of(time_unit unit) {
  switch (unit) {
    case time_unit::epoch: return "ep";
    case time_unit::batch: return "ba";
    case time_unit::sample: return "sp";
    case time_unit::token: return "tok";
    default: return "dur";
  }
}

/// The time as a string that `parse_time` reads: "100ba", "0.02dur".
[[nodiscard]] inline std::string to_string(time_value const& time) {
  if (time.unit == time_unit::duration) return parallel::concat(time.count, "dur");
  return parallel::concat(static_cast<std::int64_t>(time.count), suffix_of(time.unit));
}

/// Reads a time, a decimal number and its unit; a bare integer of YAML is epochs, as in LLM
/// Foundry.
[[nodiscard]] inline time_value parse_time(std::string_view text) {
  if (auto const epochs = parse_integer(text)) {
    parallel::require(*epochs >= 0, "'", printable(text), "' is a negative time");
    parallel::require(*epochs < std::int64_t{1} << 53, "'", printable(text),
                      "' is 2^53 epochs or more");
    return {static_cast<double>(*epochs), time_unit::epoch};
  }
  for (time_unit const unit : {time_unit::epoch, time_unit::batch, time_unit::sample,
                               time_unit::token, time_unit::duration}) {
    auto const suffix = suffix_of(unit);
    if (!text.ends_with(suffix)) continue;
    auto const count = parse_decimal(text.substr(0, text.size() - suffix.size()));
    if (!count) break;
    parallel::require(*count >= 0, "'", printable(text), "' is a negative time");
    if (unit == time_unit::duration) {
      parallel::require(*count <= 1, "'", printable(text),
                        "' is longer than the training: dur is a fraction from 0 to 1");
    } else {
      parallel::require(*count < 9007199254740992.0, "'", printable(text), "' is 2^53 ", suffix,
                        " or more; give a time that a run can reach");
      parallel::require(*count == std::trunc(*count), "'", printable(text),
                        "' is not a whole number of ", suffix);
    }
    return {*count, unit};
  }
  for (std::string_view const suffix : {"sec", "iter"})
    parallel::require(
        !text.ends_with(suffix) || !parse_decimal(text.substr(0, text.size() - suffix.size())), "'",
        printable(text), "': ", suffix, " is not yet supported; use ep, ba, sp, tok or dur");
  parallel::fail("'", printable(text),
                 "' is not a time: expected a number and one of ep, ba, sp, tok, dur");
}

/// What one finished batch is worth.
struct training_clock {
  std::int64_t samples_per_batch = 1;  ///< the global batch
  std::int64_t tokens_per_batch = 1;
  std::int64_t batches_per_epoch = 0;  ///< 0 when the data is not known yet: epochs are then errors
  time_value max_duration{1, time_unit::epoch};
};

namespace detail {

/// Fractions of max_duration as whole counts of its unit, epochs as batches (as Composer converts).
[[nodiscard]] inline time_value without_fractions(time_value time, training_clock const& clock) {
  bool const is_fraction = time.unit == time_unit::duration;
  double const fraction = time.count;
  if (is_fraction) time = clock.max_duration;
  double const amount = time.count;
  parallel::require(time.unit != time_unit::duration, "max_duration itself cannot be given in dur");
  if (time.unit == time_unit::epoch) {
    parallel::require(clock.batches_per_epoch > 0, "the time ", to_string(time),
                      " needs the number of batches of an epoch, which is not known");
    time = {time.count * static_cast<double>(clock.batches_per_epoch), time_unit::batch};
  }
  if (!is_fraction) return time;
  // in Composer's order, on which the last bit of the product, and so a whole batch, depends
  time.count = clock.max_duration.unit == time_unit::epoch
                   ? std::trunc(fraction * static_cast<double>(clock.batches_per_epoch) * amount)
                   : std::trunc(fraction * amount);
  return time;
}

/// Units of a batch: 1 for batches, else samples or tokens of one.
[[nodiscard]] inline double per_batch(time_unit unit, training_clock const& clock) {
  if (unit == time_unit::sample) return static_cast<double>(clock.samples_per_batch);
  if (unit == time_unit::token) return static_cast<double>(clock.tokens_per_batch);
  return 1;
}

}  // namespace detail

/// The time in batches, not rounded: 1e6tok at 4096 tokens a batch is 244.140625.
[[nodiscard]] inline double in_batches(time_value const& time, training_clock const& clock) {
  time_value const whole = detail::without_fractions(time, clock);
  return whole.count / detail::per_batch(whole.unit, clock);
}

/// The number of finished batches after which the time is reached.
[[nodiscard]] inline std::int64_t batches_to_reach(time_value const& time,
                                                   training_clock const& clock) {
  double const batches = std::ceil(in_batches(time, clock));
  parallel::require(batches < 9007199254740992.0, "the time ", to_string(time),
                    " is more than 2^53 batches");
  return static_cast<std::int64_t>(batches);
}

/// The number of batches of the whole training.
[[nodiscard]] inline std::int64_t total_batches(training_clock const& clock) {
  return batches_to_reach(clock.max_duration, clock);
}

/// Whether something done every `interval` (evaluate, save, log) is due once `batch` batches are
/// finished: a multiple of the interval lies in the last batch, or training ends with it. Never for
/// an interval of zero, and never before the first batch.
[[nodiscard]] inline bool is_due(time_value const& interval, std::int64_t batch,
                                 training_clock const& clock) {
  if (interval.count <= 0 || batch <= 0) return false;
  if (batch == total_batches(clock)) return true;
  time_value step = interval;
  if (interval.unit == time_unit::duration) {  // rounded up to whole units, as Composer does
    step = detail::without_fractions({1, time_unit::duration}, clock);
    step.count = clock.max_duration.unit == time_unit::epoch
                     ? std::ceil(clock.max_duration.count * interval.count *
                                 static_cast<double>(clock.batches_per_epoch))
                     : std::ceil(interval.count * step.count);
  }
  step = detail::without_fractions(step, clock);
  double const size = detail::per_batch(step.unit, clock);
  double const before = std::floor(static_cast<double>(batch - 1) * size / step.count);
  return before != std::floor(static_cast<double>(batch) * size / step.count);
}

}  // namespace mpt
