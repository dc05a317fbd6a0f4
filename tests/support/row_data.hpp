// Inputs, poisoned outputs and comparisons for tests of kernels over rows.
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

/// `count` normally distributed numbers around `center` with deviation `size`, which depend on
/// `seed`.
template <class T>
std::vector<T> normal_numbers(std::size_t count, std::uint64_t seed, float size = 1.0F,
                              float center = 0.0F) {
  philox const random(seed, 0);
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = T(center + size * random.normal(i));
  return out;
}

/// The relative error of norm kernels against the reference loops.
template <class T>
inline constexpr double norm_tolerance = std::is_same_v<T, double> ? 1e-13
                                         : std::is_same_v<T, bf16> ? 8e-3
                                                                   : 4e-6;

/// The content of an output before it is written.
template <class T>
std::vector<T> poison(std::size_t count) {
  return std::vector<T>(count, T(-77.0F));
}

/// Rows of `columns` elements with gaps of `gap` elements; the first row begins at `begin`.
struct row_shape {
  parallel::index rows, columns, gap, begin;
};

/// Aligned and unaligned rows, shorter and longer than 32 threads hold in registers.
inline constexpr row_shape row_shapes[] = {{1, 1, 0, 0},    {3, 7, 0, 0},   {2, 64, 0, 0},
                                           {2, 64, 1, 0},   {2, 96, 32, 1}, {2, 1000, 0, 0},
                                           {2, 1003, 5, 3}, {2, 1600, 0, 0}};

/// The elements of memory that rows of a shape need, plus some spare.
[[nodiscard]] inline std::size_t extent(row_shape const& s) {
  return static_cast<std::size_t>(s.begin + s.rows * (s.columns + s.gap) + 8);
}

/// Memory with rows of a shape.
template <class T>
struct rows_of {
  std::vector<T> data;
  row_shape shape;

  ops::rows_view<T> view() {
    return {data.data() + shape.begin, shape.rows, shape.columns, shape.columns + shape.gap};
  }
};

template <class T>
vector_view<T> view_of(std::vector<T>& v) {
  return {v.data(), {std::ssize(v)}};
}

/// Checks that every element is within `bound` (1 + |expected|) of the expected one; NaN equals
/// NaN.
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
