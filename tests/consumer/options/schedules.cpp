// Macros of the system's headers, I of complex.h among them, before all of the library; and a schedule
// that is made and checked at run time, since no std::vector is a constant in the debug mode.
#include <complex.h>
#include <sys/param.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <termios.h>

#include <parallel/parallel.hpp>

#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>

namespace {
bool const schedule_is_good = [] {
  auto const times = parallel::pipeline::simulate(parallel::pipeline::zb_h1(4, 8));
  return times.is_good() || (std::abort(), false);
}();
}  // namespace
