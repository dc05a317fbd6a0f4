// What a benchmark counts: time, or the processor time of all threads, which on a machine that does
// other things meanwhile says more (with one thread; waiting threads may spin).
#pragma once

#include <ctime>

namespace bench {

enum class clock_kind { wall, processor };

/// Seconds since some moment.
[[nodiscard]] inline double now(clock_kind kind) {
  timespec t{};
  clock_gettime(kind == clock_kind::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace bench
