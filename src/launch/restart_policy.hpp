// restart_policy: whether a failed start is followed by another one, and after what pause.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include <parallel/core/clock.hpp>

#include <process/exit_code.hpp>

namespace apps {

/// Allows a limited number of restarts, and only where a restart may have another outcome. A run
/// that diverged would compute the same numbers again, and a run that was refused right after its
/// start twice in a row would be refused again. Between starts that fail early, as during a network
/// outage, the pauses grow, so that the restarts cover a longer time.
class restart_policy {
 public:
  /// `longest_pause` must be shorter than the time for which nodes wait for each other.
  /// `longest_wait` limits the sum of the pauses in which launch waits for another program that
  /// writes into the run's folder; those restarts do not count.
  restart_policy(int max_restarts, std::chrono::milliseconds longest_pause,
                 std::chrono::milliseconds longest_wait = std::chrono::milliseconds(0))
      : max_restarts_(max_restarts),
        longest_pause_(std::min<std::chrono::milliseconds>(longest_pause, half_a_minute)),
        longest_wait_(longest_wait) {}

  void begin(int generation, parallel::steady_time time = std::chrono::steady_clock::now()) {
    generation_ = generation;
    start_time_ = time;
  }

  enum class answer { yes, no, useless };

  /// Decides what follows a start that has just failed with this code.
  [[nodiscard]] answer decide(int code,
                              parallel::steady_time time = std::chrono::steady_clock::now()) {
    bool const is_early = time - start_time_ < std::chrono::minutes(1);
    // a killed process did not wait for a network
    pause_ = !is_early || code > 128 ? std::chrono::milliseconds(0)
                                     : std::clamp<std::chrono::milliseconds>(
                                           2 * pause_, std::chrono::seconds(1), half_a_minute);
    is_waiting_ = code == static_cast<int>(exit_code::in_use) && max_restarts_ > 0;
    if (is_waiting_) {
      was_refused_at_once_ = false;
      if (waited_ >= longest_wait_) return answer::useless;
      waited_ += pause();
      ++wait_count_;
      return answer::yes;
    }
    if (restart_count() >= max_restarts_) return answer::no;
    bool const is_refused_at_once = (code == static_cast<int>(exit_code::refused) ||
                                     code == static_cast<int>(exit_code::storage)) &&
                                    is_early;
    bool const is_repeated =
        std::exchange(was_refused_at_once_, is_refused_at_once) && is_refused_at_once;
    return code == static_cast<int>(exit_code::diverged) || is_repeated ? answer::useless
                                                                        : answer::yes;
  }

  /// The number of counted starts after the first one.
  [[nodiscard]] int restart_count() const { return generation_ - wait_count_; }
  /// Whether the next start waits for another program that uses the run's folder.
  [[nodiscard]] bool is_waiting() const { return is_waiting_; }

  /// The pause before the next start.
  [[nodiscard]] std::chrono::milliseconds pause() const { return std::min(pause_, longest_pause_); }

 private:
  static constexpr std::chrono::milliseconds half_a_minute = std::chrono::seconds(30);

  int max_restarts_, generation_ = 0, wait_count_ = 0;
  std::chrono::milliseconds longest_pause_, longest_wait_, pause_{0}, waited_{0};
  parallel::steady_time start_time_;
  bool was_refused_at_once_ = false, is_waiting_ = false;
};

}  // namespace apps
