// Matrix products of whole numbers, as large as weight gradients are, checked in every element.
//
// Sums of these numbers are exact in float, in any order, and no longer when factors are rounded
// to fewer bits than they have (TF32) or parts of a sum to bf16: so whatever algorithm a library
// takes has one right result. All of it is checked by a product with a vector of random numbers,
// C r = A (B r), in 64-bit integers, and likewise from the left: cheap, and an element that is
// wrong shows but for a chance of 2^-20.
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

/// A matrix of a product as it is stored; `transposed` says that the product reads it so.
struct whole_matrix {
  std::vector<std::int64_t> values;
  index rows = 0, columns = 0;  // as the product reads it
  bool transposed = false;

  [[nodiscard]] std::int64_t at(index row, index column) const {
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
            at(row, column) * x[static_cast<std::size_t>(from_left ? row : column)];
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

/// c [m, n] = op(a) op(b) on the device, twice: what is tuned is timed at the first and used at
/// both; where it accumulates, to whole numbers.
template <class T, class Device>
void check_exact_product(both_sides<Device>& both, index m, index n, index k,
                         parallel::ops::matmul_options options) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(options.transpose_a);
  CAPTURE(options.transpose_b);
  CAPTURE(options.accumulate);
  // eight bits for bf16, else one more than TF32 has; sums of 32768 stay far below 2^24
  std::int64_t const greatest = sizeof(T) == 2 ? 255 : 4095;
  whole_matrix a{whole_numbers(m * k, greatest, both.next_seed()), m, k, options.transpose_a};
  whole_matrix b{whole_numbers(k * n, 1, both.next_seed()), k, n, options.transpose_b};
  whole_matrix before{whole_numbers(m * n, 1000, both.next_seed()), m, n};
  if (!options.accumulate) before.values.assign(before.values.size(), 0);
  auto const placed = [&]<class E>(std::type_identity<E>, whole_matrix const& of) {
    std::vector<E> out;
    for (auto const value : of.values) out.push_back(ops_support::number<E>(double(value)));
    return both.twin_of(out);
  };
  auto there_a = placed(std::type_identity<T>{}, a);
  auto there_b = placed(std::type_identity<T>{}, b);
  for (int again = 0; again < 2; ++again) {
    auto c = placed(std::type_identity<float>{}, before);
    both.run_on_device([&](auto& s) {
      auto const stored = [&](auto& of, whole_matrix const& as) {
        return parallel::matrix_view<T const>(
            of.data_for(s),
            {as.transposed ? as.columns : as.rows, as.transposed ? as.rows : as.columns});
      };
      parallel::ops::matmul(s, as_matrix(s, c, m, n), stored(there_a, a), stored(there_b, b),
                            options);
    });
    whole_matrix got{{}, m, n};
    bool whole = true;
    for (float const value : c.values()) {
      bool const fits = std::abs(value) < 1e9F;  // no NaN
      whole = whole && fits && value == std::floor(value);
      got.values.push_back(fits ? static_cast<std::int64_t>(value) : 0);
    }
    CHECK(whole);
    for (bool const from_left : {false, true}) {
      auto const r = whole_numbers(from_left ? m : n, 1 << 20, both.next_seed());
      auto expected =
          from_left ? b.times(a.times(r, true), true) : a.times(b.times(r, false), false);
      auto const added = before.times(r, from_left);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
      CHECK(got.times(r, from_left) == expected);
    }
  }
}

/// Weight gradients of a small model over `rows` tokens, odd extents, and what else a layer asks.
template <class T, class Device>
void check_exact_products(both_sides<Device>& both, index rows) {
  for (bool const accumulate : {false, true}) {
    check_exact_product<T>(both, 768, 768, rows, {.transpose_a = true, .accumulate = accumulate});
    check_exact_product<T>(both, 769, 257, rows - 1,
                           {.transpose_a = true, .accumulate = accumulate});
    check_exact_product<T>(both, 513, 771, 1027, {.accumulate = accumulate});
    check_exact_product<T>(both, 512, 256, 768, {.transpose_b = true, .accumulate = accumulate});
  }
}

}  // namespace test
