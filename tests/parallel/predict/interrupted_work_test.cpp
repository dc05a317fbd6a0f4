#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include <parallel/predict/interrupted_work.hpp>

namespace interrupted_work_test {
namespace {

namespace predict = parallel::predict;

/// The mean time of the work in simulated runs with random failures.
double simulated_seconds(predict::interrupted_work const& work, int runs) {
  std::mt19937_64 random(17);
  std::exponential_distribution<double> time_to_failure(1 / work.failure_interval);
  double total = 0;
  for (int run = 0; run < runs; ++run)
    for (double finished = 0; finished < work.seconds;) {
      double const needed = std::min(work.interval, work.seconds - finished);
      double failure = time_to_failure(random);
      while (failure < needed) {
        total += failure;
        for (failure = time_to_failure(random); failure < work.restart;
             failure = time_to_failure(random))
          total += failure;
        total += work.restart;
        failure -= work.restart;
      }
      total += needed;
      finished += needed;
    }
  return total / runs;
}

TEST_CASE("interrupted work: the expected time is the mean of simulated runs") {
  for (double const failure_interval : {300.0, 1000.0, 10000.0}) {
    CAPTURE(failure_interval);
    predict::interrupted_work const work{
        .seconds = 5000, .interval = 250, .restart = 60, .failure_interval = failure_interval};
    CHECK(work.expected_seconds() == doctest::Approx(simulated_seconds(work, 4000)).epsilon(0.02));
  }
}

TEST_CASE("interrupted work: rare failures cost half an interval and a restart each") {
  predict::interrupted_work work{
      .seconds = 1e6, .interval = 3600, .restart = 600, .failure_interval = 1e7};
  double const lost = work.expected_seconds() - work.seconds;
  CHECK(lost == doctest::Approx(1e6 / 1e7 * (1800 + 600)).epsilon(1e-3));
  work.failure_interval = std::numeric_limits<double>::infinity();
  CHECK(work.expected_seconds() == work.seconds);
  work.interval = 1e9;  // no checkpoint before the end
  work.failure_interval = 1e6;
  CHECK(work.expected_seconds() ==
        doctest::Approx(1e6 * std::exp(6e-4) * (std::exp(1.0) - 1)).epsilon(1e-12));
}

TEST_CASE("best interval of saves: no other interval has a shorter expected time") {
  for (double const save : {1.0, 60.0, 600.0})
    for (double const failure_interval : {3600.0, 86400.0}) {
      CAPTURE(save);
      CAPTURE(failure_interval);
      auto const time_with = [&](double interval) {
        double const useful = 1e7;
        return predict::interrupted_work{.seconds = useful * (1 + save / interval),
                                         .interval = interval + save,
                                         .restart = 300,
                                         .failure_interval = failure_interval}
            .expected_seconds();
      };
      double const best = predict::best_save_interval(save, failure_interval);
      CHECK(time_with(best) < time_with(0.9 * best));
      CHECK(time_with(best) < time_with(1.1 * best));
    }
  // a save of a minute, a failure a day: sqrt(2 x 60 x 86 400) s by Young's formula alone
  CHECK(predict::best_save_interval(60, 86400) == doctest::Approx(3219.9).epsilon(0.02));
}

}  // namespace
}  // namespace interrupted_work_test
