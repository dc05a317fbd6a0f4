// another_start: whether what failed is started again, and after what pause.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include <parallel/core/clock.hpp>

#include "support/exit_code.hpp"

namespace apps {

/// So often at most, and where it may end otherwise. That is not what diverged, which goes on with
/// the same numbers, and not what was refused as soon as it began, twice in a row. Starts that soon
/// fail, as where a network is away, come at growing distances, so that they last for longer.
class another_start {
 public:
  /// `longest_pause`: nodes wait for each other for longer than that. `longest_wait`: so long, all
  /// pauses together, another program that writes into the run's folder is waited for; such starts
  /// do not count.
  another_start(int most, std::chrono::milliseconds longest_pause,
                std::chrono::milliseconds longest_wait = std::chrono::milliseconds(0))
      : most_(most),
        longest_(std::min<std::chrono::milliseconds>(longest_pause, half_a_minute)),
        longest_wait_(longest_wait) {}

  void begin(int generation, parallel::steady_time now = std::chrono::steady_clock::now()) {
    generation_ = generation;
    begun_ = now;
  }

  enum class answer { yes, no, of_no_use };

  /// Of a start that has just failed with this code.
  [[nodiscard]] answer may_help(int code,
                                parallel::steady_time now = std::chrono::steady_clock::now()) {
    bool const soon = now - begun_ < std::chrono::minutes(1);
    // who was killed has waited for nobody
    pause_ = !soon || code > 128 ? std::chrono::milliseconds(0)
                                 : std::clamp<std::chrono::milliseconds>(
                                       2 * pause_, std::chrono::seconds(1), half_a_minute);
    waits_ = code == static_cast<int>(exit_code::in_use) && most_ > 0;
    if (waits_) {
      failed_at_once_ = false;
      if (waited_ >= longest_wait_) return answer::of_no_use;
      waited_ += pause();
      ++waits_so_far_;
      return answer::yes;
    }
    if (counted() >= most_) return answer::no;
    bool const at_once = (code == static_cast<int>(exit_code::refused) ||
                          code == static_cast<int>(exit_code::storage)) &&
                         soon;
    bool const again = std::exchange(failed_at_once_, at_once) && at_once;
    return code == static_cast<int>(exit_code::diverged) || again ? answer::of_no_use : answer::yes;
  }

  /// How many starts after the first count so far.
  [[nodiscard]] int counted() const { return generation_ - waits_so_far_; }
  /// Whether the next start is one that another program is waited for with.
  [[nodiscard]] bool waits() const { return waits_; }

  /// Before the next start.
  [[nodiscard]] std::chrono::milliseconds pause() const { return std::min(pause_, longest_); }

 private:
  static constexpr std::chrono::milliseconds half_a_minute = std::chrono::seconds(30);

  int most_, generation_ = 0, waits_so_far_ = 0;
  std::chrono::milliseconds longest_, longest_wait_, pause_{0}, waited_{0};
  parallel::steady_time begun_;
  bool failed_at_once_ = false, waits_ = false;
};

}  // namespace apps
