// scheduler_config: LLM Foundry's `scheduler`, and the learning rate as a pure function of it
// (parallel/train/learning_rate.hpp).
//
// Multipliers scale the initial learning rate; t counts finished batches: batch t+1 is trained with
// the multiplier at t, so the first batch of a warm-up with 0. Unlike in Composer, t_warmup and
// t_max may have different units, since every batch here has the same number of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/yaml/reader.hpp>
#include <mpt/yaml/time.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// LLM Foundry's schedules of the learning rate.
enum class schedule_kind {
  constant_with_warmup,
  linear_decay_with_warmup,
  cosine_with_warmup,
  inv_sqrt_with_warmup
};

/// The name of a schedule in a configuration.
[[nodiscard]] constexpr std::string_view to_string(schedule_kind kind) {
  switch (kind) {
    case schedule_kind::constant_with_warmup: return "constant_with_warmup";
    case schedule_kind::linear_decay_with_warmup: return "linear_decay_with_warmup";
    case schedule_kind::cosine_with_warmup: return "cosine_with_warmup";
    case schedule_kind::inv_sqrt_with_warmup: break;
  }
  return "inv_sqrt_with_warmup";
}

/// `scheduler`.
struct scheduler_config {
  schedule_kind kind = schedule_kind::cosine_with_warmup;
  time_value t_warmup{0, time_unit::batch};
  time_value t_max{1, time_unit::duration};
  double alpha_i = 1;  ///< multiplier after the warm-up (`alpha` of the constant schedule)
  double alpha_f = 0;  ///< multiplier at t_max; inv_sqrt_with_warmup: the decay's limit

  /// The scale of time in inv_sqrt_with_warmup; this and the following are for that kind alone.
  time_value t_scale{1, time_unit::batch};
  time_value t_cooldown{0, time_unit::batch};
  double alpha_f_cooldown = 0;  ///< multiplier at the cooldown's end

  friend bool operator==(scheduler_config const&, scheduler_config const&) = default;
};

/// Fails when t_max ends before max_duration (inv_sqrt_with_warmup: when its times are in another
/// unit), or when a time needs an epoch's length that the clock does not know.
void check_schedule(scheduler_config const& schedule, training_clock const& clock);

/// Whether the schedule depends on the length of an epoch.
[[nodiscard]] bool needs_epochs(scheduler_config const& schedule, time_value const& max_duration);

/// A sentence for each part of the schedule (warm-up, decay) that training ends before.
[[nodiscard]] std::vector<std::string> unfinished_parts(scheduler_config const& schedule,
                                                        training_clock const& clock);

/// unfinished_parts of a schedule that depends on the length of an epoch, and so cannot be checked
/// when the configuration is read; empty for any other schedule.
[[nodiscard]] std::vector<std::string> unfinished_parts_in_epochs(scheduler_config const& schedule,
                                                                  training_clock const& clock);

/// The multiplier of the learning rate after `batch` finished batches.
[[nodiscard]] double learning_rate_multiplier(scheduler_config const& schedule, std::int64_t batch,
                                              training_clock const& clock);

/// Reads and checks `scheduler`.
[[nodiscard]] scheduler_config read_scheduler(config_reader reader);

}  // namespace mpt
