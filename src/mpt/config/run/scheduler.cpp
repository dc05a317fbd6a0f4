#include <mpt/config/run/scheduler.hpp>

#include <utility>

#include <parallel/train/learning_rate.hpp>

namespace mpt {

void check_schedule(scheduler_config const& schedule, training_clock const& clock) {
  if (schedule.kind == schedule_kind::inv_sqrt_with_warmup) {
    auto const check = [&](std::string_view key, time_value const& time) {
      auto const unit = clock.max_duration.unit;
      parallel::require(time.unit == unit || (key == "t_max" && time.unit == time_unit::duration),
                        "scheduler.", key, " ", to_string(time),
                        " must be in the unit of max_duration ", to_string(clock.max_duration),
                        ", as that of inv_sqrt_with_warmup");
    };
    check("t_warmup", schedule.t_warmup);
    check("t_scale", schedule.t_scale);
    check("t_cooldown", schedule.t_cooldown);
    check("t_max", schedule.t_max);
    static_cast<void>(in_batches(schedule.t_max, clock));
    return;
  }
  double const end = in_batches(schedule.t_max, clock);
  double const duration = in_batches(clock.max_duration, clock);
  parallel::require(end >= duration, "scheduler.t_max ", to_string(schedule.t_max), " (", end,
                    " batches) is shorter than max_duration ", to_string(clock.max_duration), " (",
                    duration, " batches); make it at least as long");
}

bool needs_epochs(scheduler_config const& schedule, time_value const& max_duration) {
  return max_duration.unit == time_unit::epoch || schedule.t_max.unit == time_unit::epoch ||
         schedule.t_warmup.unit == time_unit::epoch;
}

std::vector<std::string> unfinished_parts(scheduler_config const& schedule,
                                          training_clock const& clock) {
  std::vector<std::string> out;
  auto const duration = total_batches(clock);
  auto const text_in_batches = [&](time_value const& time) {
    return time.unit == clock.max_duration.unit
               ? to_string(time)
               : parallel::concat(to_string(time), " (", in_batches(time, clock), " batches)");
  };
  auto const& warmup = schedule.t_warmup;
  if (warmup.count > 0 && batches_to_reach(warmup, clock) >= duration)
    out.push_back(parallel::concat(
        "scheduler.t_warmup ", text_in_batches(warmup), " is not shorter than max_duration ",
        to_string(clock.max_duration), ": the learning rate does not come to its value"));
  bool const decays = schedule.kind == schedule_kind::cosine_with_warmup ||
                      schedule.kind == schedule_kind::linear_decay_with_warmup;
  bool const cools_down =
      schedule.kind == schedule_kind::inv_sqrt_with_warmup && schedule.t_cooldown.count > 0;
  if ((decays || cools_down) && batches_to_reach(schedule.t_max, clock) > duration)
    out.push_back(parallel::concat("scheduler.t_max ", text_in_batches(schedule.t_max),
                                   " is longer than max_duration ", to_string(clock.max_duration),
                                   ": the learning rate does not come down to ",
                                   decays ? "alpha_f" : "alpha_f_cooldown"));
  return out;
}

std::vector<std::string> unfinished_parts_in_epochs(scheduler_config const& schedule,
                                                    training_clock const& clock) {
  return needs_epochs(schedule, clock.max_duration) ? unfinished_parts(schedule, clock)
                                                    : std::vector<std::string>();
}

double learning_rate_multiplier(scheduler_config const& schedule, std::int64_t batch,
                                training_clock const& clock) {
  time_value warmup = detail::without_fractions(schedule.t_warmup, clock);
  time_value end = detail::without_fractions(schedule.t_max, clock);
  double progress = static_cast<double>(batch);
  if (warmup.unit == end.unit)
    progress *= detail::units_per_batch(end.unit, clock);
  else {
    warmup.count /= detail::units_per_batch(warmup.unit, clock);
    end.count /= detail::units_per_batch(end.unit, clock);
  }
  using enum parallel::train::decay;
  bool const starts_at_1 = schedule.kind == schedule_kind::cosine_with_warmup ||
                           schedule.kind == schedule_kind::inv_sqrt_with_warmup;
  parallel::train::learning_rate_schedule schedule_shape{.shape = cosine,
                                                         .warmup = warmup.count,
                                                         .end = end.count,
                                                         .from = starts_at_1 ? 1 : schedule.alpha_i,
                                                         .to = schedule.alpha_f};
  if (schedule.kind == schedule_kind::constant_with_warmup) schedule_shape.shape = constant;
  if (schedule.kind == schedule_kind::linear_decay_with_warmup) schedule_shape.shape = linear;
  if (schedule.kind == schedule_kind::inv_sqrt_with_warmup) {
    schedule_shape.shape = inverse_root;
    schedule_shape.scale = detail::without_fractions(schedule.t_scale, clock).count;
    schedule_shape.cooldown = detail::without_fractions(schedule.t_cooldown, clock).count;
    schedule_shape.cooled_down = schedule.alpha_f_cooldown;
  }
  return schedule_shape.at(progress);
}

scheduler_config read_scheduler(config_reader reader) {
  scheduler_config schedule;
  auto const name = reader.required<std::string>("name");
  static_cast<void>(reader.one_of("name", name,
                                  {"cosine_with_warmup", "linear_decay_with_warmup",
                                   "constant_with_warmup", "inv_sqrt_with_warmup"}));
  for (auto const kind :
       {schedule_kind::inv_sqrt_with_warmup, schedule_kind::linear_decay_with_warmup,
        schedule_kind::constant_with_warmup})
    if (name == to_string(kind)) schedule.kind = kind;
  schedule.t_warmup = reader.required<time_value>("t_warmup");
  schedule.t_max = reader.get("t_max", schedule.t_max);
  reader.check("t_max", schedule.t_max.count > 0, "must be above 0");
  auto const multiplier = [&](std::string_view key, double fallback) {
    double const value = reader.get(key, fallback);
    reader.check(key, value >= 0, "must not be negative, found ", value);
    return value;
  };
  if (schedule.kind == schedule_kind::constant_with_warmup) {
    schedule.alpha_i = multiplier("alpha", schedule.alpha_i);
    schedule.alpha_f = schedule.alpha_i;
    reader.report_without_effect("t_max", "the learning rate stays as it is after the warm-up");
  } else if (schedule.kind == schedule_kind::inv_sqrt_with_warmup) {
    schedule.t_scale = reader.required<time_value>("t_scale");
    reader.check("t_scale", schedule.t_scale.count > 0, "must be above 0");
    schedule.t_cooldown = reader.required<time_value>("t_cooldown");
    for (auto const& [key, time] :
         {std::pair<std::string_view, time_value>{"t_warmup", schedule.t_warmup},
          {"t_scale", schedule.t_scale},
          {"t_cooldown", schedule.t_cooldown}})
      reader.check(key, time.unit != time_unit::duration,
                   "cannot be a fraction of max_duration, since this schedule is for training that "
                   "goes on; use the unit of max_duration");
    schedule.alpha_f = multiplier("alpha_f_decay", schedule.alpha_f);
    schedule.alpha_f_cooldown = multiplier("alpha_f_cooldown", schedule.alpha_f_cooldown);
    reader.check("alpha_f_decay", schedule.alpha_f >= schedule.alpha_f_cooldown,
                 "must be at least alpha_f_cooldown, ", schedule.alpha_f_cooldown, ", found ",
                 schedule.alpha_f);
  } else {
    if (schedule.kind == schedule_kind::linear_decay_with_warmup)
      schedule.alpha_i = multiplier("alpha_i", schedule.alpha_i);
    schedule.alpha_f = multiplier("alpha_f", schedule.alpha_f);
  }
  if (schedule.kind != schedule_kind::inv_sqrt_with_warmup)
    reader.accept_without_effect("scale_warmup", "durations are never rescaled");
  reader.finish();
  return schedule;
}

}  // namespace mpt
