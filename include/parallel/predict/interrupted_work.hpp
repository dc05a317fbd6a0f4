// interrupted_work: the time of work that failures interrupt and checkpoints save, and the best
// interval between two checkpoints.
#pragma once

#include <algorithm>
#include <cmath>

#include <parallel/core/config.hpp>

namespace parallel::predict {

/// Work that continues from its last checkpoint after a failure. All in seconds.
struct interrupted_work {
  double seconds = 0;           ///< without failures, saving included
  double interval = 0;          ///< of them, between two checkpoints
  double restart = 0;           ///< from a failure until the work goes on from the last checkpoint
  double failure_interval = 0;  ///< mean time between failures; may be infinite

  /// The expected time until the work is done, for failures that are independent of each other and
  /// may strike during a restart too: each interval of s seconds takes
  /// M exp(R / M) (exp(s / M) - 1), where M is failure_interval and R is restart (J. T. Daly, A
  /// higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation
  /// Computer Systems 22, 2006). Where failures are rare, each of them adds half an interval and a
  /// restart.
  [[nodiscard]] double expected_seconds() const {
    if (seconds <= 0 || std::isinf(failure_interval)) return seconds;
    double const m = failure_interval, s = std::min(interval, seconds);
    return seconds / s * m * std::exp(restart / m) * std::expm1(s / m);
  }
};

/// The interval between two checkpoints at which the least time is lost, where a checkpoint stops
/// the work for `save` seconds: Young's sqrt(2 save M) (J. W. Young, Communications of the ACM 17,
/// 1974) with Daly's next terms, as work between two checkpoints.
[[nodiscard]] inline double best_save_interval(double save, double failure_interval) {
  double const m = failure_interval;
  if (std::isinf(m)) return m;
  if (save >= 2 * m) return m;
  double const x = save / (2 * m);
  return std::sqrt(2 * save * m) * (1 + std::sqrt(x) / 3 + x / 9) - save;
}

}  // namespace parallel::predict
