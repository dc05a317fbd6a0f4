// Time strings (`4800ba`, `1ep`, `2e9tok`, `512sp`, `0.02dur`) and what they mean in batches.
//
// As in Composer: `dur` is a fraction of max_duration; the others are whole counts. A training
// clock says how many samples and tokens a batch has; then any time is a number of batches, and one
// that falls inside a batch is reached when that batch ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

/// The units of training time.
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
[[nodiscard]] std::string to_string(time_value const& time);

/// Reads a time, a decimal number and its unit; a bare integer of YAML is epochs, as in LLM
/// Foundry.
[[nodiscard]] time_value parse_time(std::string_view text);

/// The samples and tokens of a batch, the batches of an epoch, and the length of the training.
struct training_clock {
  std::int64_t samples_per_batch = 1;  ///< the global batch
  std::int64_t tokens_per_batch = 1;
  std::int64_t batches_per_epoch = 0;  ///< 0 when the data is not known yet: epochs are then errors
  time_value max_duration{1, time_unit::epoch};
};

namespace detail {

/// The time with fractions of max_duration as whole counts of its unit and epochs as batches, as
/// Composer converts them.
[[nodiscard]] time_value without_fractions(time_value time, training_clock const& clock);

/// The number of units in a batch: 1 for batches, else its samples or tokens.
[[nodiscard]] double units_per_batch(time_unit unit, training_clock const& clock);

}  // namespace detail

/// The time in batches, not rounded: 1e6tok with 4096 tokens per batch is 244.140625.
[[nodiscard]] double in_batches(time_value const& time, training_clock const& clock);

/// The number of finished batches after which the time is reached.
[[nodiscard]] std::int64_t batches_to_reach(time_value const& time, training_clock const& clock);

/// The number of batches of the whole training.
[[nodiscard]] std::int64_t total_batches(training_clock const& clock);

/// Whether an action with this `interval` (evaluation, checkpoint, log) is due after `batch`
/// finished batches: a multiple of the interval falls into the last batch, or training ends with
/// it. Never for an interval of zero, and never before the first batch.
[[nodiscard]] bool is_due(time_value const& interval, std::int64_t batch,
                          training_clock const& clock);

}  // namespace mpt
