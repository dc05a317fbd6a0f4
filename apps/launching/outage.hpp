// outage: a folder that several machines see fails now and then for a while, as when its server is
// started again, or a file is replaced while it is read; that is no reason to end a run.
//
// What fails is tried again: `passes` tries once, for whoever asks now and then and has other
// things to do meanwhile, `insist` until it is done.
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

  /// One that lasts longer than `most` is an error.
  explicit outage(std::chrono::seconds most) : most_(most) {}

  /// Whether `action` is done. Throws its error when nothing has passed for too long.
  template <class Action>
  [[nodiscard]] bool passes(Action const& action) {
    try {
      action();
      begun_.reset();
      return true;
    } catch (parallel::error const& problem) {
      note(problem.what());
      if (last_ - *begun_ >= most_) throw;
      return false;
    }
  }

  template <class Action>
  void insist(Action const& action) {
    while (!passes(action)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  /// When something failed last: what others were to do until then they may not have been able to.
  [[nodiscard]] clock::time_point last() const { return last_; }

 private:
  /// What fails for a moment only is not worth a word.
  static constexpr auto worth_a_word = std::chrono::seconds(5);

  void note(std::string_view problem) {
    last_ = clock::now();
    if (!begun_) {
      begun_ = last_;
      is_said_ = false;
    }
    if (is_said_ || last_ - *begun_ < worth_a_word || last_ - *begun_ >= most_) return;
    is_said_ = true;
    mpt::console::say("note: {}; it is tried again for {} s\n", problem, most_.count());
  }

  std::chrono::seconds most_;
  std::optional<clock::time_point> begun_;  // while it lasts
  clock::time_point last_ = clock::time_point::min();
  bool is_said_ = false;
};

}  // namespace apps
