// patience: a deadline that a process does not miss by having been stopped itself.
//
// The steady clock runs on while a process is stopped (SIGSTOP, a frozen container, a machine that
// swaps). When it goes on, its deadlines have passed though nobody kept it waiting: it would blame
// ranks that have long come. So only time in which the waiting rank looked counts.
#pragma once

#include <algorithm>

#include <parallel/core/clock.hpp>

namespace parallel {

/// How long something may be waited for. Whoever waits calls `is_over` at least every `pause`; what
/// passes beyond that between two questions does not count.
class patience {
 public:
  /// The longest time between two questions that counts in full.
  static constexpr std::chrono::milliseconds pause{250};

  explicit patience(std::chrono::milliseconds limit,
                    steady_time now = std::chrono::steady_clock::now())
      : left_(limit), asked_(now) {}

  /// Whether more than the limit has been waited.
  [[nodiscard]] bool is_over(steady_time now = std::chrono::steady_clock::now()) {
    left_ -= std::min<std::chrono::steady_clock::duration>(now - asked_, pause);
    asked_ = now;
    return left_ < std::chrono::steady_clock::duration::zero();
  }

  /// When to ask again at the latest, as of the last question.
  [[nodiscard]] steady_time next() const {
    return asked_ + std::clamp<std::chrono::steady_clock::duration>(
                        left_ + std::chrono::milliseconds(1), std::chrono::milliseconds(0), pause);
  }

 private:
  std::chrono::steady_clock::duration left_;
  steady_time asked_;
};

}  // namespace parallel
