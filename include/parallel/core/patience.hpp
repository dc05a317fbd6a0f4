// patience: a deadline that does not expire while the waiting process itself is stopped.
//
// The steady clock continues while a process is stopped (SIGSTOP, a frozen container, a machine
// that swaps). When the process continues, an ordinary deadline has passed, and the process would
// blame ranks that arrived in time. So only time during which the process checked regularly counts.
//
// shared_deadline: the time that ranks wait for each other; all copies share one value.
//
// The phases of a program need different limits: the first step also tunes and allocates and takes
// much longer than a later one. The code that knows the phase sets the limit for all waits that
// begin afterwards.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include <parallel/core/clock.hpp>
#include <parallel/core/config.hpp>

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

/// Copies share one value. Thread-safe.
class shared_deadline {
 public:
  /// Begins a new shared value.
  template <class Rep, class Period>
  shared_deadline(std::chrono::duration<Rep, Period> time)  // NOLINT: as a duration is given
      : time_(std::make_shared<std::atomic<std::chrono::milliseconds>>(
            std::chrono::duration_cast<std::chrono::milliseconds>(time))) {}

  [[nodiscard]] std::chrono::milliseconds get() const { return *time_; }
  [[nodiscard]] double seconds() const { return static_cast<double>(get().count()) / 1000.0; }

  /// Sets the limit for waits that begin from now on.
  template <class Rep, class Period>
  void set(std::chrono::duration<Rep, Period> time) const {
    *time_ = std::chrono::duration_cast<std::chrono::milliseconds>(time);
  }

 private:
  std::shared_ptr<std::atomic<std::chrono::milliseconds>> time_;
};

}  // namespace parallel
