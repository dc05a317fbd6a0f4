// Numbers, poison and comparisons for the tests of kernels over rows.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/rows_view.hpp>

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

/// How near the kernels of norms come to the reference loops.
template <class T>
inline constexpr double norm_tolerance = std::is_same_v<T, double> ? 1e-13
                                         : std::is_same_v<T, bf16> ? 8e-3
                                                                   : 4e-6;

/// What an output holds before it is written.
template <class T>
std::vector<T> poison(std::size_t count) {
  return std::vector<T>(count, T(-77.0F));
}

/// Rows of `columns` that lie `gap` elements apart, the first of them at `begin`.
struct row_shape {
  parallel::index rows, columns, gap, begin;
};

/// Aligned and not, shorter and longer than what 32 threads keep in registers.
inline constexpr row_shape row_shapes[] = {{1, 1, 0, 0},    {3, 7, 0, 0},   {2, 64, 0, 0},
                                           {2, 64, 1, 0},   {2, 96, 32, 1}, {2, 1000, 0, 0},
                                           {2, 1003, 5, 3}, {2, 1600, 0, 0}};

/// Elements of memory that rows of a shape need, and some more.
[[nodiscard]] inline std::size_t extent(row_shape const& s) {
  return static_cast<std::size_t>(s.begin + s.rows * (s.columns + s.gap) + 8);
}

/// Memory with rows of a shape.
template <class T>
struct rows_of {
  std::vector<T> data;
  row_shape at;

  ops::rows_view<T> view() {
    return {data.data() + at.begin, at.rows, at.columns, at.columns + at.gap};
  }
};

template <class T>
vector_view<T> view_of(std::vector<T>& v) {
  return {v.data(), {std::ssize(v)}};
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
