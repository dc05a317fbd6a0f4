// save_timer: measures what a run's saves cost it.
#pragma once

#include <chrono>
#include <cmath>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

/// The total cost of saves: how many became checkpoints, how long they held up their caller, and
/// how long they took from their beginning until the checkpoint was complete.
struct save_costs {
  index saves = 0;
  double held_up_seconds = 0;
  double seconds = 0;
};

/// Hours that one device of a large run works between failures of the whole: 419 unexpected
/// interruptions in 54 days on 16 384 GPUs (Grattafiori et al., "The Llama 3 Herd of Models", 2024,
/// section 3.3.4).
inline constexpr double device_hours_between_failures = 54.0 * 24 * 16384 / 419;

/// Seconds of training between two saves that lose the least time when a save costs `cost` seconds
/// of training and failures occur every `failures` seconds on average: Daly, "A higher order
/// estimate of the optimum checkpoint interval for restart dumps" (Future Generation Computer
/// Systems 22, 2006), eq. 37; to first order Young's √(2·cost·failures) (CACM 17, 1974). Throws
/// unless cost >= 0 and failures > 0.
[[nodiscard]] inline double best_save_interval(double cost, double failures) {
  require(cost >= 0 && failures > 0, "best_save_interval: a save that costs ", cost,
          " s and a failure every ", failures, " s; expected at least 0 and more than 0");
  if (cost >= 2 * failures) return failures;
  auto const ratio = cost / (2 * failures);
  return std::sqrt(2 * cost * failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

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
    hold(hold&&) = delete;

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
