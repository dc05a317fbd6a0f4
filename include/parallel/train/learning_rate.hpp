// learning_rate_schedule: the factor of the learning rate as a function of time, which
// stepper::step takes in addition to the optimizer's own rate.
//
// Time counts from 0 in any one unit: steps, tokens, samples. With w = warmup, T = end, the factor
// rises linearly from 0 to `from` before w; after w, with tau = clip((t - w) / (T - w), 0, 1), it
// is
//   constant      from
//   linear        from + (to - from) tau
//   cosine        to + (from - to) (1 + cos(pi tau)) / 2
//   inverse_root  d(t) = to + (from - to) / sqrt((t - w + scale) / scale) until T - cooldown; then
//                 linear to `cooled_down`; without a cooldown it needs no T
// The arithmetic is Composer's, in its order, on doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include <parallel/core/error.hpp>

namespace parallel::train {

/// The course of the factor after the warm-up.
enum class decay : std::uint8_t { constant, linear, cosine, inverse_root };

struct learning_rate_schedule {
  decay shape = decay::cosine;
  double warmup = 0;
  double end = 0;   ///< time at which `to` is reached; linear, cosine and a cooldown need it
  double from = 1;  ///< factor after the warm-up
  double to = 0;    ///< factor at the end; for inverse_root the limit
  /// The scale of time in inverse_root; this and the following are for that shape alone.
  double scale = 1;
  double cooldown = 0;     ///< length of the linear part at the end
  double cooled_down = 0;  ///< factor at its end

  /// The factor at a time, in the unit of `warmup` and `end`. Throws where the shape needs an end
  /// and has none.
  [[nodiscard]] double at(double time) const {
    if (shape != decay::constant && !(shape == decay::inverse_root && cooldown == 0))
      require(end > 0, "learning_rate_schedule: this shape falls until `end`, which is ", end,
              "; set it to the length of the training, above 0");
    if (time < warmup) return std::min(1.0, time / warmup) * from;
    if (shape == decay::constant) return from;
    if (shape == decay::inverse_root) return inverse_root(time);
    double const tau = end > warmup ? std::min(1.0, (time - warmup) / (end - warmup)) : 0;
    if (shape == decay::linear) return from + tau * (to - from);
    return to + (from - to) * (1 + std::cos(tau * std::numbers::pi)) / 2;
  }

 private:
  [[nodiscard]] double inverse_root(double time) const {
    bool const endless = end == 0 && cooldown == 0;
    double const cooldown_begin =
        endless ? std::numeric_limits<double>::infinity() : std::max(warmup, end - cooldown);
    auto const decayed = [&](double t) {  // a power, as Python writes it: the last bit may differ
      double const factor = 1 / std::pow((t + (scale - warmup)) / scale, 0.5);
      return to + factor * (from - to);
    };
    if (time < cooldown_begin) return decayed(time);
    double const first = decayed(cooldown_begin);
    if (cooldown == 0) return first;
    double const tau = std::min(1.0, (time - cooldown_begin) / cooldown);
    return first + tau * (cooled_down - first);
  }
};

}  // namespace parallel::train
