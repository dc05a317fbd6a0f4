// Numbers, poison and comparisons for the tests of kernels over rows.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>

namespace parallel::testing {

/// `count` numbers of about `size`, the same for a seed, around `center`.
template <class T>
std::vector<T> normal_numbers(std::size_t count, std::uint64_t seed, float size = 1.0F,
                              float center = 0.0F) {
  philox const random(seed, 0);
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = T(center + size * random.normal(i));
  return out;
}

/// What an output holds before it is written.
template <class T>
std::vector<T> poison(std::size_t count) {
  return std::vector<T>(count, T(-77.0F));
}

/// Every element within `bound` of the expected one; NaN equals NaN.
template <class T, class U>
void check_close(std::vector<T> const& actual, std::vector<U> const& expected, double bound) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    auto const a = static_cast<double>(actual[i]);
    auto const e = static_cast<double>(expected[i]);
    CAPTURE(i);
    if (std::isnan(e))
      CHECK(std::isnan(a));
    else if (!(std::abs(a - e) <= bound * (1.0 + std::abs(e))))
      CHECK(a == e);
  }
}

}  // namespace parallel::testing
