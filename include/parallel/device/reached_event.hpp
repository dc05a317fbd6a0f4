// reached_event: the event of streams on which nothing is ever pending.
#pragma once

#include <parallel/core/clock.hpp>

namespace parallel {

/// An event that is always reached.
struct reached_event {
  void wait() const {}
  [[nodiscard]] bool ready() const { return true; }
  [[nodiscard]] bool wait_until(steady_time) const { return true; }
};

}  // namespace parallel
