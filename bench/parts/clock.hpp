// The clock of a benchmark: wall time, or the processor time of all threads. Processor time is the
// better measure on a machine with other load, with one thread only, because waiting threads may
// spin.
#pragma once

#include <ctime>

namespace bench {

enum class clock_kind { wall, processor };

/// Seconds since an unspecified start.
[[nodiscard]] inline double read_clock(clock_kind kind) {
  timespec t{};
  clock_gettime(kind == clock_kind::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace bench
