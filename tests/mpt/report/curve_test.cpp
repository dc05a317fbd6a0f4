// Decimation keeps what a reader looks for: the ends, every peak, and where a run broke.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include <mpt/report/curve.hpp>

namespace report_curve_test {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

mpt::report::curve noisy_curve(std::int64_t size) {
  std::mt19937 random(7);
  mpt::report::curve out;
  for (std::int64_t batch = 1; batch <= size; ++batch)
    out.add(batch, 5 + static_cast<double>(random() % 1000) / 1000);
  return out;
}

/// The value at a batch; NaN where the curve has none.
double value_at(mpt::report::curve const& points, std::int64_t batch) {
  auto const found = std::ranges::find(points.batches, batch);
  if (found == points.batches.end()) return not_a_number;
  return points.values[static_cast<std::size_t>(found - points.batches.begin())];
}

TEST_CASE("report curve: decimation keeps the ends, single peaks and dips, and their batches") {
  auto points = noisy_curve(50'000);
  points.values[12'344] = 99;
  points.values[30'000] = -3;
  auto const shown = mpt::report::decimate(points, 1000);
  CHECK(shown.size() <= 1000);
  CHECK(shown.size() > 900);
  CHECK(std::ranges::is_sorted(shown.batches, std::ranges::less_equal{}));
  CHECK(std::ranges::adjacent_find(shown.batches) == shown.batches.end());
  CHECK(shown.batches.front() == 1);
  CHECK(shown.batches.back() == 50'000);
  CHECK(value_at(shown, 12'345) == 99);
  CHECK(value_at(shown, 30'001) == -3);
  for (std::size_t i = 0; i < shown.size(); ++i)
    REQUIRE(value_at(points, shown.batches[i]) == shown.values[i]);
}

TEST_CASE("report curve: of a range with values that are not finite, one of them is kept") {
  auto points = noisy_curve(10'000);
  for (std::size_t i = 5000; i < 5003; ++i) points.values[i] = not_a_number;
  auto const shown = mpt::report::decimate(points, 100);
  CHECK(std::ranges::count_if(shown.values, [](double v) { return std::isnan(v); }) == 1);
  CHECK(std::isnan(value_at(shown, 5001)));
}

TEST_CASE("report curve: few points stay as they are") {
  auto const points = noisy_curve(64);
  CHECK(mpt::report::decimate(points, 64) == points);
  CHECK(mpt::report::decimate({}, 10).empty());
  CHECK(mpt::report::decimate(noisy_curve(4), 1) == noisy_curve(4));
}

TEST_CASE("report curve: a range has its mean and its extremes, and says what is not finite") {
  mpt::report::curve points;
  for (std::int64_t batch = 1; batch <= 5; ++batch) points.add(batch, static_cast<double>(batch));
  points.add(6, not_a_number);
  auto const range = mpt::report::summarize(points, 2, 4);
  CHECK(range.count == 3);
  CHECK(range.mean == 3);
  CHECK(range.smallest == 2);
  CHECK(range.largest == 4);
  CHECK(!range.has_non_finite);
  CHECK(mpt::report::summarize(points, 5, 9).has_non_finite);
  CHECK(mpt::report::summarize(points, 5, 9).count == 1);
  CHECK(mpt::report::summarize(points, 7, 9).count == 0);
}

}  // namespace report_curve_test
