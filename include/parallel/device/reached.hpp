// reached: the event of streams on which nothing is ever pending.
#pragma once

#include <parallel/core/clock.hpp>

namespace parallel {

/// Whatever was enqueued before it has run, or never will.
struct reached {
  void wait() const {}
  [[nodiscard]] bool ready() const { return true; }
  [[nodiscard]] bool wait_until(steady_time) const { return true; }
};

}  // namespace parallel
