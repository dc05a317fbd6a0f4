// shared_deadline: how long one rank waits for another, by everything that holds a copy of it.
//
// A program's phases take differently long: what is late in a step is early in the first, which
// tunes and allocates. Whoever knows the phase sets the time for all who wait from then on.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <parallel/core/config.hpp>

namespace parallel {

/// Copies share one time. Any thread may use it.
class shared_deadline {
 public:
  /// A time of its own.
  template <class Rep, class Period>
  shared_deadline(std::chrono::duration<Rep, Period> time)  // NOLINT: as a duration is given
      : time_(std::make_shared<std::atomic<std::chrono::milliseconds>>(
            std::chrono::duration_cast<std::chrono::milliseconds>(time))) {}

  [[nodiscard]] std::chrono::milliseconds get() const { return *time_; }
  [[nodiscard]] double seconds() const { return static_cast<double>(get().count()) / 1000.0; }

  /// For waits that begin from now on.
  template <class Rep, class Period>
  void set(std::chrono::duration<Rep, Period> time) const {
    *time_ = std::chrono::duration_cast<std::chrono::milliseconds>(time);
  }

 private:
  std::shared_ptr<std::atomic<std::chrono::milliseconds>> time_;
};

}  // namespace parallel
