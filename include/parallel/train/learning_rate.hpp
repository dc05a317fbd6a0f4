// learning_rate_schedule: the factor of the learning rate as a function of time, which is what
// stepper::step takes beside the optimizer's own rate.
//
// Time counts from 0 in any one unit: steps, tokens, samples. With w = warmup, T = end, below w a
// straight line from 0 to `from`; then, with tau = clip((t - w) / (T - w), 0, 1),
//   constant      from
//   linear        from + (to - from) tau
//   cosine        to + (from - to) (1 + cos(pi tau)) / 2
//   inverse_root  d(t) = to + (from - to) / sqrt((t - w + scale) / scale) until T - cooldown; then
//                 straight to `cooled_down`; without a cooldown it needs no T
// The arithmetic is Composer's, in its order, on doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include <parallel/core/error.hpp>

namespace parallel::train {

enum class decay : std::uint8_t { constant, linear, cosine, inverse_root };

struct learning_rate_schedule {
  decay shape = decay::cosine;
  double warmup = 0;
  double end = 0;   // when `to` is reached; linear, cosine and a cooldown need it
  double from = 1;  // factor after the warm-up
  double to = 0;    // factor at the end; of inverse_root the limit
  // of inverse_root alone
  double scale = 1;
  double cooldown = 0;     // length of the straight line at the end
  double cooled_down = 0;  // factor at its end

  /// The factor at time `now`, in the unit of `warmup` and `end`. Throws where the shape needs an
  /// end and has none.
  [[nodiscard]] double at(double now) const {
    if (shape != decay::constant && !(shape == decay::inverse_root && cooldown == 0))
      require(end > 0, "learning_rate_schedule: this shape falls until `end`, which is ", end,
              "; set it to the length of the training, above 0");
    if (now < warmup) return std::min(1.0, now / warmup) * from;
    if (shape == decay::constant) return from;
    if (shape == decay::inverse_root) return inverse_root(now);
    double const tau = end > warmup ? std::min(1.0, (now - warmup) / (end - warmup)) : 0;
    if (shape == decay::linear) return from + tau * (to - from);
    return to + (from - to) * (1 + std::cos(tau * std::numbers::pi)) / 2;
  }

 private:
  [[nodiscard]] double inverse_root(double now) const {
    bool const endless = end == 0 && cooldown == 0;
    double const turn =
        endless ? std::numeric_limits<double>::infinity() : std::max(warmup, end - cooldown);
    auto const decayed =
        [&](double time) {  // a power, as Python writes it: the last bit may differ
          double const factor = 1 / std::pow((time + (scale - warmup)) / scale, 0.5);
          return to + factor * (from - to);
        };
    if (now < turn) return decayed(now);
    double const first = decayed(turn);
    if (cooldown == 0) return first;
    double const tau = std::min(1.0, (now - turn) / cooldown);
    return first + tau * (cooled_down - first);
  }
};

}  // namespace parallel::train
