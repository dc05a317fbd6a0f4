// clock: the steady clock and its durations, for deadlines and times of events.
//
// The types are those of std::chrono. They come with <mutex>, whose functions take them: <chrono>
// itself also brings calendars, time zones and streams, which no header here needs and which would
// slow down the compilation of every file.
#pragma once

#include <mutex>

#include <parallel/core/config.hpp>

namespace parallel {

/// A point in time; changes of the system's clock do not affect it.
using steady_time = std::chrono::steady_clock::time_point;

}  // namespace parallel
