// save_timer: what a run's saves cost it.
#pragma once

#include <chrono>

#include <parallel/checkpoint/save_interval.hpp>

namespace parallel::checkpoint {

/// Of saves that follow each other, each between `begin` and `end`, through which their caller
/// passes now and then.
class save_timer {
  using clock = std::chrono::steady_clock;

 public:
  /// While it lives, saving holds its caller up.
  class hold {
   public:
    explicit hold(save_timer& of) : of_(of) {}
    ~hold() { of_.held_up_ += clock::now() - since_; }
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;

   private:
    save_timer& of_;
    clock::time_point since_ = clock::now();
  };

  void begin() { begun_ = clock::now(); }
  /// The checkpoint is there.
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
