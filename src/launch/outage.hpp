// outage: repeats operations in a shared folder that fails for a while.
//
// Such a folder fails when its server restarts, or when a file is replaced while it is read; that
// is not a reason to end a run. `try_once` makes one attempt, for a caller that polls and has other
// work; `retry` repeats the operation until it succeeds.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include <mpt/console/say.hpp>
#include <parallel/core/error.hpp>

namespace apps {

class outage {
 public:
  using clock = std::chrono::steady_clock;

  /// An outage that lasts longer than `limit` is an error.
  explicit outage(std::chrono::duration<double> limit) : limit_(limit) {}

  /// Whether `action` succeeded. Throws its error when no action has succeeded for too long.
  template <class Action>
  [[nodiscard]] bool try_once(Action const& action) {
    try {
      action();
      begin_.reset();
      return true;
    } catch (parallel::error const& problem) {
      note(problem.what());
      if (last_failure_ - *begin_ >= limit_) throw;
      return false;
    }
  }

  template <class Action>
  void retry(Action const& action) {
    while (!try_once(action)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  /// The time of the last failure: until then other nodes may have been unable to act, too.
  [[nodiscard]] clock::time_point last_failure() const { return last_failure_; }

 private:
  /// A shorter outage is not reported.
  static constexpr auto report_delay = std::chrono::seconds(5);

  void note(std::string_view problem) {
    last_failure_ = clock::now();
    if (!begin_) {
      begin_ = last_failure_;
      is_reported_ = false;
    }
    if (is_reported_ || last_failure_ - *begin_ < report_delay || last_failure_ - *begin_ >= limit_)
      return;
    is_reported_ = true;
    mpt::console::say("note: {}; it is tried again for {} s\n", problem, limit_.count());
  }

  std::chrono::duration<double> limit_;
  std::optional<clock::time_point> begin_;  // of the current outage
  clock::time_point last_failure_ = clock::time_point::min();
  bool is_reported_ = false;
};

}  // namespace apps
