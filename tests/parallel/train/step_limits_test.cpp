#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

#include <parallel/train/step_limits.hpp>

namespace step_limits_test {

using parallel::train::judge;
using parallel::train::step_limits;
using enum parallel::train::step_outcome;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("step limits: a step at its limits updates, one above either does not") {
  step_limits const bounds{2, 3};
  CHECK(judge(2, 3, bounds) == updated);
  CHECK(judge(-1e300, 0, bounds) == updated);
  CHECK(judge(std::nextafter(2.0, 3.0), 3, bounds) == above_limit);
  CHECK(judge(2, std::nextafter(3.0, 4.0), bounds) == above_limit);
  CHECK(judge(1e300, 1e300, {}) == updated);
  for (double const bad : {nan, infinity, -infinity})
    for (auto const& limits : {bounds, step_limits{}}) {
      CHECK(judge(bad, 1, limits) == not_finite);
      CHECK(judge(1, bad, limits) == not_finite);
    }
}

TEST_CASE("step limits: different limits have different fingerprints, and no limits have 0") {
  CHECK_FALSE(step_limits{}.has_limit());
  CHECK(step_limits{}.fingerprint() == 0);
  std::set<std::uint32_t> fingerprints{0};
  for (double const loss : {1.0, std::nextafter(1.0, 2.0), 2.0, infinity})
    for (double const norm : {1.0, std::nextafter(1.0, 2.0), 2.0}) {
      CHECK(step_limits{loss, norm}.has_limit());
      CHECK(fingerprints.insert(step_limits{loss, norm}.fingerprint()).second);
      CHECK(step_limits{loss, norm}.fingerprint() == step_limits{loss, norm}.fingerprint());
    }
}

}  // namespace step_limits_test
