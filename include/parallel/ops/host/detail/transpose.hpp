// Transposition of a matrix of 32-bit elements in registers: squares of L x L, by log2(L)
// exchanges.
#pragma once

#include <cstring>
#include <utility>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// Exchanges lanes between the rows a and b of a square, which are `Distance` apart, as a
/// transposition of 2 x 2 blocks of Distance x Distance requires.
template <int Distance, int L, int... Lane>
[[gnu::always_inline]] inline void exchange_lanes(simd::pack<float, L>& a, simd::pack<float, L>& b,
                                                  std::integer_sequence<int, Lane...>) {
  auto const first = a.v;
  auto const second = b.v;
  a.v = __builtin_shufflevector(first, second,
                                ((Lane & Distance) != 0 ? L + Lane - Distance : Lane)...);
  b.v = __builtin_shufflevector(first, second,
                                ((Lane & Distance) != 0 ? L + Lane : Lane + Distance)...);
}

template <int Distance, int L>
[[gnu::always_inline]] inline void exchange_rows(simd::pack<float, L> (&square)[L]) {
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  simd::unrolled(
      lanes, [&](auto row) __attribute__((always_inline)) {
        if constexpr ((row & Distance) == 0)
          exchange_lanes<Distance, L>(square[row], square[row + Distance], lanes);
      });
}

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns, both multiples of 16.
template <int L, class E>
[[gnu::always_inline]] inline void transpose(E* to, index to_row, E const* from, index from_row,
                                             index rows, index columns) {
  static_assert(sizeof(E) == sizeof(float));
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  for (index i = 0; i < rows; i += L)
    for (index j = 0; j < columns; j += L) {
      simd::pack<float, L> square[L];
      simd::unrolled(
          lanes, [&](auto row) __attribute__((always_inline)) {
            __builtin_memcpy(&square[row].v, from + (i + row) * from_row + j, sizeof square[0].v);
          });
      exchange_rows<1, L>(square);
      exchange_rows<2, L>(square);
      if constexpr (L > 4) exchange_rows<4, L>(square);
      if constexpr (L > 8) exchange_rows<8, L>(square);
      simd::unrolled(
          lanes, [&](auto row) __attribute__((always_inline)) {
            __builtin_memcpy(to + (j + row) * to_row + i, &square[row].v, sizeof square[0].v);
          });
    }
}

}  // namespace parallel::host::detail
