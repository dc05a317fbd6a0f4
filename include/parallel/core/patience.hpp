// patience: a deadline that does not expire while the waiting process itself is stopped.
//
// The steady clock continues while a process is stopped (SIGSTOP, a frozen container, a machine
// that swaps). When the process continues, an ordinary deadline has passed, and the process would
// blame ranks that arrived in time. So only time during which the process checked regularly counts.
#pragma once

#include <algorithm>

#include <parallel/core/clock.hpp>

namespace parallel {

/// A limit on the time of a wait. The waiting thread calls `is_over` at least every `max_pause`; of
/// the time between two calls, only `max_pause` counts.
class patience {
 public:
  /// The longest time between two calls of is_over that counts in full.
  static constexpr std::chrono::milliseconds max_pause{250};

  explicit patience(std::chrono::milliseconds limit,
                    steady_time time = std::chrono::steady_clock::now())
      : remaining_(limit), last_check_(time) {}

  /// Whether the counted time exceeds the limit.
  [[nodiscard]] bool is_over(steady_time time = std::chrono::steady_clock::now()) {
    remaining_ -= std::min<std::chrono::steady_clock::duration>(time - last_check_, max_pause);
    last_check_ = time;
    return remaining_ < std::chrono::steady_clock::duration::zero();
  }

  /// The latest time for the next call of is_over.
  [[nodiscard]] steady_time next_check() const {
    return last_check_ +
           std::clamp<std::chrono::steady_clock::duration>(
               remaining_ + std::chrono::milliseconds(1), std::chrono::milliseconds(0), max_pause);
  }

 private:
  std::chrono::steady_clock::duration remaining_;
  steady_time last_check_;
};

}  // namespace parallel
