// Matrix products of whole numbers at the sizes of weight gradients, checked in every element.
//
// Sums of these numbers are exact in float in any order, but not when factors are rounded to fewer
// bits than they have (TF32) or partial sums to bf16; so every algorithm has the same right result.
// The result is checked by a product with a vector of random numbers, C r = A (B r), in 64-bit
// integers, and likewise from the left. That is cheap, and misses a wrong element with a
// probability of 2^-20.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/philox.hpp>
#include <parallel/ops/matmul.hpp>

#include "support/twin.hpp"

namespace test {

/// A factor of a product as it is stored; if `transposed`, the product reads it transposed.
struct whole_matrix {
  std::vector<std::int64_t> values;
  index rows = 0, columns = 0;  // as the product reads it
  bool transposed = false;

  [[nodiscard]] std::int64_t element(index row, index column) const {
    return values[static_cast<std::size_t>(transposed ? column * rows + row
                                                      : row * columns + column)];
  }
  /// This matrix times x, or, from the left, x times this matrix.
  [[nodiscard]] std::vector<std::int64_t> times(std::span<std::int64_t const> x,
                                                bool from_left) const {
    std::vector<std::int64_t> out(static_cast<std::size_t>(from_left ? columns : rows));
    for (index outer = 0; outer < (transposed ? columns : rows); ++outer)  // as it is stored
      for (index inner = 0; inner < (transposed ? rows : columns); ++inner) {
        index const row = transposed ? inner : outer, column = transposed ? outer : inner;
        out[static_cast<std::size_t>(from_left ? column : row)] +=
            element(row, column) * x[static_cast<std::size_t>(from_left ? row : column)];
      }
    return out;
  }
};

[[nodiscard]] inline std::vector<std::int64_t> whole_numbers(index count, std::int64_t greatest,
                                                             std::uint64_t seed) {
  parallel::philox const random(seed, parallel::stream_id("whole numbers"));
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] =
        static_cast<std::int64_t>(random.bits(i) % static_cast<std::uint32_t>(2 * greatest + 1)) -
        greatest;
  return out;
}

/// Checks c [m, n] = op(a) op(b) on the device twice, since the first call may time algorithms for
/// the second. An accumulating product adds to whole numbers.
template <class T, class Device>
void check_exact_product(both_sides<Device>& sides, index m, index n, index k,
                         parallel::ops::matmul_options options) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(options.transpose_a);
  CAPTURE(options.transpose_b);
  CAPTURE(options.accumulate);
  // Factors have eight bits for bf16, else one more than TF32; sums of 32768 terms are exact in
  // float.
  std::int64_t const greatest = sizeof(T) == 2 ? 255 : 4095;
  whole_matrix a{whole_numbers(m * k, greatest, sides.next_seed()), m, k, options.transpose_a};
  whole_matrix b{whole_numbers(k * n, 1, sides.next_seed()), k, n, options.transpose_b};
  whole_matrix initial{whole_numbers(m * n, 1000, sides.next_seed()), m, n};
  if (!options.accumulate) initial.values.assign(initial.values.size(), 0);
  auto const on_device = [&]<class E>(std::type_identity<E>, whole_matrix const& matrix) {
    std::vector<E> out;
    for (auto const value : matrix.values) out.push_back(ops_support::number<E>(double(value)));
    return sides.twin_of(out);
  };
  auto device_a = on_device(std::type_identity<T>{}, a);
  auto device_b = on_device(std::type_identity<T>{}, b);
  for (int run = 0; run < 2; ++run) {
    auto c = on_device(std::type_identity<float>{}, initial);
    sides.run_on_device([&](auto& s) {
      auto const stored = [&](auto& data, whole_matrix const& matrix) {
        return parallel::matrix_view<T const>(data.data_for(s),
                                              {matrix.transposed ? matrix.columns : matrix.rows,
                                               matrix.transposed ? matrix.rows : matrix.columns});
      };
      parallel::ops::matmul(s, as_matrix(s, c, m, n), stored(device_a, a), stored(device_b, b),
                            options);
    });
    whole_matrix product{{}, m, n};
    bool is_whole = true;
    for (float const value : c.values()) {
      bool const is_finite = std::abs(value) < 1e9F;  // no NaN
      is_whole = is_whole && is_finite && value == std::floor(value);
      product.values.push_back(is_finite ? static_cast<std::int64_t>(value) : 0);
    }
    CHECK(is_whole);
    for (bool const from_left : {false, true}) {
      auto const r = whole_numbers(from_left ? m : n, 1 << 20, sides.next_seed());
      auto expected =
          from_left ? b.times(a.times(r, true), true) : a.times(b.times(r, false), false);
      auto const added = initial.times(r, from_left);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
      CHECK(product.times(r, from_left) == expected);
    }
  }
}

/// Weight gradients of a small model over `rows` tokens, odd extents, and the other products of a
/// layer.
template <class T, class Device>
void check_exact_products(both_sides<Device>& sides, index rows) {
  for (bool const accumulate : {false, true}) {
    check_exact_product<T>(sides, 768, 768, rows, {.transpose_a = true, .accumulate = accumulate});
    check_exact_product<T>(sides, 769, 257, rows - 1,
                           {.transpose_a = true, .accumulate = accumulate});
    check_exact_product<T>(sides, 513, 771, 1027, {.accumulate = accumulate});
    check_exact_product<T>(sides, 512, 256, 768, {.transpose_b = true, .accumulate = accumulate});
  }
}

}  // namespace test
