// shared_deadline: the time that ranks wait for each other; all copies share one value.
//
// The phases of a program need different limits: the first step also tunes and allocates and takes
// much longer than a later one. The code that knows the phase sets the limit for all waits that
// begin afterwards.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <parallel/core/config.hpp>

namespace parallel {

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
