#include <doctest/doctest.h>

#include <parallel/cluster/rate_curve.hpp>

namespace rate_curve_test {
namespace {

using parallel::cluster::rate_curve;

TEST_CASE("rate curve: linear in logarithms between points, constant outside of them") {
  rate_curve const curve({{100, 1000}, {1, 10}});
  CHECK(curve.rate(1) == 10);
  CHECK(curve.rate(10) == doctest::Approx(100));
  CHECK(curve.rate(100) == doctest::Approx(1000));
  CHECK(curve.rate(0.5) == 10);
  CHECK(curve.rate(1e6) == 1000);
  CHECK(rate_curve(7).rate(3) == 7);
}

TEST_CASE("rate curve: refuses points that are none") {
  CHECK_THROWS_WITH_AS(rate_curve({{1, 0}}),
                       "a rate of 0 for the size 1: sizes and rates must be above 0",
                       parallel::error);
  CHECK_THROWS_WITH_AS(rate_curve({{1, 2}, {1, 3}}), "two rates for the size 1", parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(rate_curve().rate(1)),
                       "a rate curve without points has no rate", parallel::error);
}

}  // namespace
}  // namespace rate_curve_test
