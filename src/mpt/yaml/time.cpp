#include <mpt/yaml/time.hpp>

#include <cmath>

#include <mpt/ascii.hpp>
#include <mpt/yaml/node.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {

std::string to_string(time_value const& time) {
  if (time.unit == time_unit::duration) return parallel::concat(time.count, "dur");
  return parallel::concat(static_cast<std::int64_t>(time.count), suffix_of(time.unit));
}

time_value parse_time(std::string_view text) {
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
    auto const count = parse_decimal(trimmed(text.substr(0, text.size() - suffix.size())));
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

double in_batches(time_value const& time, training_clock const& clock) {
  time_value const whole = detail::without_fractions(time, clock);
  return whole.count / detail::units_per_batch(whole.unit, clock);
}

std::int64_t batches_to_reach(time_value const& time, training_clock const& clock) {
  double const batches = std::ceil(in_batches(time, clock));
  parallel::require(batches < 9007199254740992.0, "the time ", to_string(time),
                    " is more than 2^53 batches");
  return static_cast<std::int64_t>(batches);
}

std::int64_t total_batches(training_clock const& clock) {
  return batches_to_reach(clock.max_duration, clock);
}

bool is_due(time_value const& interval, std::int64_t batch, training_clock const& clock) {
  if (interval.count <= 0 || batch <= 0) return false;
  if (batch == total_batches(clock)) return true;
  time_value whole_interval = interval;
  if (interval.unit == time_unit::duration) {  // rounded up to whole units, as Composer does
    whole_interval = detail::without_fractions({1, time_unit::duration}, clock);
    whole_interval.count = clock.max_duration.unit == time_unit::epoch
                               ? std::ceil(clock.max_duration.count * interval.count *
                                           static_cast<double>(clock.batches_per_epoch))
                               : std::ceil(interval.count * whole_interval.count);
  }
  whole_interval = detail::without_fractions(whole_interval, clock);
  double const batch_units = detail::units_per_batch(whole_interval.unit, clock);
  double const intervals_before =
      std::floor(static_cast<double>(batch - 1) * batch_units / whole_interval.count);
  return intervals_before !=
         std::floor(static_cast<double>(batch) * batch_units / whole_interval.count);
}

}  // namespace mpt

namespace mpt::detail {

time_value without_fractions(time_value time, training_clock const& clock) {
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
  // in Composer's order, since the last bit of the product can decide on a whole batch
  time.count = clock.max_duration.unit == time_unit::epoch
                   ? std::trunc(fraction * static_cast<double>(clock.batches_per_epoch) * amount)
                   : std::trunc(fraction * amount);
  return time;
}

double units_per_batch(time_unit unit, training_clock const& clock) {
  if (unit == time_unit::sample) return static_cast<double>(clock.samples_per_batch);
  if (unit == time_unit::token) return static_cast<double>(clock.tokens_per_batch);
  return 1;
}

}  // namespace mpt::detail
