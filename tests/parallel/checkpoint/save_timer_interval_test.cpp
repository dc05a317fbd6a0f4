#include <cmath>

#include <doctest/doctest.h>

#include <parallel/checkpoint/save_timer.hpp>
#include <parallel/support/files.hpp>

namespace save_interval_test {
namespace pc = parallel::checkpoint;

/// The time that a second of work takes with saves every `interval` seconds of work and
/// exponentially distributed failures, after which the work since the last save is repeated (Daly,
/// eq. 20 without restart).
double time_per_second(double interval, double cost, double failures) {
  return failures * std::expm1((interval + cost) / failures) / interval;
}

TEST_CASE("save interval: no interval loses much less time than the proposed one") {
  for (double const cost : {0.1, 3.0, 60.0, 600.0})
    for (double const failures : {1800.0, 3600.0, 86400.0, 1e7}) {
      CAPTURE(cost);
      CAPTURE(failures);
      auto const proposed = pc::best_save_interval(cost, failures);
      auto const least_time = time_per_second(proposed, cost, failures);
      for (double factor = 1.0 / 64; factor < 64; factor *= 1.1)
        CHECK(time_per_second(proposed * factor, cost, failures) > 0.998 * least_time);
    }
}

TEST_CASE(
    "save interval: is Young's to first order, and stays bounded when saves outlast failures") {
  CHECK(pc::best_save_interval(1, 1e8) == doctest::Approx(std::sqrt(2e8)).epsilon(1e-3));
  CHECK(pc::best_save_interval(0, 3600) == 0);
  CHECK(pc::best_save_interval(7200, 3600) == 3600);
  CHECK(test::contains(test::message_of([] { static_cast<void>(pc::best_save_interval(1, 0)); }),
                       "a failure every 0 s; expected"));
}

}  // namespace save_interval_test
