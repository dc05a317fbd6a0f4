#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/philox.hpp>

namespace exact_sum_test {

using parallel::exact_sum;

double sum_of(std::vector<double> const& values) {
  exact_sum sum;
  for (double const v : values) sum.add(v);
  return sum.value();
}

/// Numbers of all magnitudes between 2^-300 and 2^300, of both signs.
std::vector<double> wild(std::size_t count) {
  parallel::philox const random(3, 1);
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::ldexp(double(random.normal(2 * i)),
                             static_cast<int>(random.bits(2 * i + 1) % 600U) - 300));
  return out;
}

TEST_CASE("exact_sum: large addends cancel exactly, and small ones are not lost") {
  CHECK(sum_of({1e300, 1.0, -1e300}) == 1.0);
  CHECK(sum_of({0x1p-1074, 0x1p1000, -0x1p1000}) == 0x1p-1074);
  CHECK(sum_of({}) == 0.0);
  CHECK(sum_of({3.0, -3.0}) == 0.0);
  CHECK(sum_of({-0x1p60, 1.0}) == 1.0 - 0x1p60);
  CHECK(sum_of({-1.5, -2.25, 0.125}) == -3.625);
  CHECK(sum_of({std::numeric_limits<double>::max(), -1.0, -std::numeric_limits<double>::max()}) ==
        -1.0);
  CHECK(sum_of({std::numeric_limits<double>::denorm_min(),
                std::numeric_limits<double>::denorm_min()}) ==
        2 * std::numeric_limits<double>::denorm_min());
}

TEST_CASE("exact_sum: the same bits in any order and any division over ranks") {
  auto values = wild(3000);
  double const expected = sum_of(values);
  std::reverse(values.begin(), values.end());
  CHECK(sum_of(values) == expected);
  std::sort(values.begin(), values.end());
  CHECK(sum_of(values) == expected);
  for (std::size_t const ranks : {2, 3, 7}) {
    std::vector<exact_sum> parts(ranks);
    for (std::size_t i = 0; i < values.size(); ++i) parts[i % ranks].add(values[i]);
    exact_sum joined;
    for (auto const& part : parts) joined.add(part);
    CHECK(joined.value() == expected);
    // sums the digits of all ranks, as an all-reduce does
    exact_sum by_digits;
    auto const to = by_digits.digits();
    for (auto& part : parts) {
      auto const from = part.digits();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
    CHECK(by_digits.value() == expected);
  }
  // a sum of doubles in sequence depends on their order
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    forward += values[i];
    backward += values[values.size() - 1 - i];
  }
  CHECK(forward != backward);
}

TEST_CASE("exact_sum: a sum of squares is within one unit in the last place of long double") {
  parallel::philox const random(5, 1);
  exact_sum sum;
  long double expected = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    double const x = double(random.normal(i));
    sum.add(x * x);
    expected += static_cast<long double>(x * x);
  }
  CHECK(std::abs(sum.value() - static_cast<double>(expected)) <= 0x1p-52 * double(expected));
}

TEST_CASE("exact_sum: the three digits of an addend represent its magnitude") {
  for (double const value : {1.0, 0x1.fffffffffffffp1023, 0x1p-1074, 0x1.23456789abcdep-1030, 0.0,
                             0x1.fffffffffffffp-33, 0x1.8p31}) {
    auto const parts = exact_sum::split(-value);
    REQUIRE(parts.lowest_digit + 2 < exact_sum::digit_count);
    double sum = 0;
    for (int i = 2; i >= 0; --i) {
      CHECK(parts.digits[i] >= 0);
      CHECK(parts.digits[i] < std::int64_t{1} << 32);
      sum += std::ldexp(double(parts.digits[i]),
                        32 * (static_cast<int>(parts.lowest_digit) + i) - 1152);
    }
    CHECK(sum == value);
  }
}

TEST_CASE("exact_sum: infinities and NaN appear in the result") {
  double const inf = std::numeric_limits<double>::infinity();
  CHECK(sum_of({1.0, inf}) == inf);
  CHECK(std::isnan(sum_of({inf, -inf})));
  CHECK(std::isnan(sum_of({1.0, std::nan("")})));
}

}  // namespace exact_sum_test
