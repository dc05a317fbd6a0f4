// save_timer: measures what a run's saves cost it.
#pragma once

#include <chrono>

#include <parallel/checkpoint/save_interval.hpp>

namespace parallel::checkpoint {

/// Times consecutive saves. A save lasts from `begin` to `end`, and its caller spends parts of that
/// time in the saver.
class save_timer {
  using clock = std::chrono::steady_clock;

 public:
  /// While it lives, saving holds up the caller.
  class hold {
   public:
    explicit hold(save_timer& timer) : timer_(timer) {}
    ~hold() { timer_.held_up_ += clock::now() - since_; }
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;

   private:
    save_timer& timer_;
    clock::time_point since_ = clock::now();
  };

  void begin() { begun_ = clock::now(); }
  /// Ends a save: the checkpoint is complete.
  void end() {
    until_there_ += clock::now() - begun_;
    ++saves_;
  }

  [[nodiscard]] save_costs costs() const {
    auto const seconds = [](clock::duration time) {
      return std::chrono::duration<double>(time).count();
    };
    return {saves_, seconds(held_up_), seconds(until_there_)};
  }

 private:
  index saves_ = 0;
  clock::duration held_up_{}, until_there_{};
  clock::time_point begun_;
};

}  // namespace parallel::checkpoint
