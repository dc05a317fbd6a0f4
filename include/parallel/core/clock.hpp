// clock: the steady clock and its durations, for deadlines and times of events.
//
// They are those of std::chrono, by the standard header whose functions take them: <chrono> itself
// brings calendars, time zones and streams with it, which no header here needs and every file that
// includes one would pay for.
#pragma once

#include <mutex>

#include <parallel/core/config.hpp>

namespace parallel {

/// A point in time that no change of the system's clock moves.
using steady_time = std::chrono::steady_clock::time_point;

}  // namespace parallel
