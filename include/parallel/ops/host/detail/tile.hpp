// The small product that all host kernels consist of: C[rows, columns] = or += A[rows, depth]
// B[depth, columns], sums in float, with operands in cache. Elements of A and B are floats, or
// pairs of bf16 (neighbours in depth) if the processor multiplies and adds those at twice the
// speed.
//
// Eight rows by two registers of columns accumulate in registers. A is read one number at a time,
// so it may have any strides and transposition costs nothing; B and C are read in whole registers.
// Rows are a multiple of 8 and columns of the number of lanes: callers pad their scratch. Causal
// attention multiplies triangles of tiles; `bounds` states which part of a product is known to be
// zero or unused, in steps of eight rows or one register. The code is compiled once for each
// instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// The part of a product that a causal mask leaves. With keys j and queries i: j is visible to i
/// iff j <= i + offset, both counted from the beginning of the tile.
enum class bounds : unsigned char {
  none,
  columns_from_row,    // rows are keys, columns queries: only columns >= row - offset are needed
  depth_until_column,  // depth is keys, columns queries: depth <= column + offset
  depth_from_row,      // depth is queries, rows keys: depth >= row - offset
};

/// Two bf16; the one of lower depth is in the lower half.
using bf16_pair = std::uint32_t;

/// The number of depths that one element of an operand holds.
template <class E>
inline constexpr index depth_of = std::is_same_v<E, float> ? 1 : 2;

/// Whether the processor multiplies pairs of bf16 (AVX512-BF16) in registers of 16 lanes.
[[nodiscard]] inline bool multiplies_pairs() {
  return simd::native_lanes() == 16 && __builtin_cpu_supports("avx512bf16") != 0;
}

template <class E>
struct tile_of {
  index rows = 0;     // multiple of 8
  index columns = 0;  // multiple of the lanes
  index depth = 0;    // in elements of the operands
  E const* a = nullptr;
  index a_row = 0;    // from one row of A to the next
  index a_depth = 0;  // from one column of A to the next
  index a_group = 0;  // from row r to row r + 8, r a multiple of 8; 0: 8 a_row
  E const* b = nullptr;
  index b_depth = 0;  // from one row of B to the next
  float* c = nullptr;
  index c_row = 0;
  bounds limit = bounds::none;  // in terms of keys and queries, not of bf16 pairs
  index offset = 0;

  struct range {
    index begin, end;
  };
  /// The range of depths that rows from `row` on and columns up to `last_column` need.
  [[nodiscard]] range needed(index row, index last_column) const {
    constexpr index depths_per_element = depth_of<E>;
    if (limit == bounds::columns_from_row && last_column < row - offset) return {0, 0};
    if (limit == bounds::depth_until_column)
      return {0, std::clamp<index>((last_column + offset + depths_per_element) / depths_per_element,
                                   0, depth)};
    if (limit == bounds::depth_from_row)
      return {std::clamp<index>((row - offset) / depths_per_element, 0, depth), depth};
    return {0, depth};
  }
  /// Whether nobody reads a part that needs no depth, so that not even zeros are written to it.
  [[nodiscard]] bool is_unused() const { return limit == bounds::columns_from_row; }
};
using tile = tile_of<float>;

inline constexpr index tile_rows = 8;

enum class tile_store : unsigned char { assign, add };

/// Computes `Rows` rows by `Registers` registers of columns.
template <int L, int Rows, int Registers, tile_store Store>
[[gnu::always_inline]] inline void micro_rows(index depth, float const* a, index a_row,
                                              index a_depth, float const* b, index b_depth,
                                              float* c, index c_row) {
  using floats = simd::pack<float, L>;
  constexpr auto rows = std::make_integer_sequence<int, Rows>{};
  constexpr auto registers = std::make_integer_sequence<int, Registers>{};
  floats sum[Rows][Registers];
  simd::unrolled(
      rows, [&](auto r) __attribute__((always_inline)) {
        simd::unrolled(
            registers, [&](auto v) __attribute__((always_inline)) { sum[r][v] = floats(0.0F); });
      });
  float const* a_high = a + 4 * a_row;
  for (index k = 0; k < depth; ++k) {
    floats right[Registers];
    simd::unrolled(
        registers, [&](auto v)
                       __attribute__((always_inline)) { right[v] = simd::load<L>(b + v * L); });
    simd::unrolled(
        rows, [&](auto r) __attribute__((always_inline)) {
          floats const left(r < 4 ? a[r * a_row] : a_high[(r - 4) * a_row]);
          simd::unrolled(
              registers, [&](auto v) __attribute__((always_inline)) {
                sum[r][v] = simd::fma(left, right[v], sum[r][v]);
              });
        });
    a += a_depth;
    a_high += a_depth;
    b += b_depth;
  }
  simd::unrolled(
      rows, [&](auto r) __attribute__((always_inline)) {
        simd::unrolled(
            registers, [&](auto v) __attribute__((always_inline)) {
              float* const to = c + r * c_row + v * L;
              if constexpr (Store == tile_store::add)
                simd::store(to, simd::load<L>(to) + sum[r][v]);
              else
                simd::store(to, sum[r][v]);
            });
      });
}

/// Sixteen registers hold at most four rows of sums in addition to the operands.
template <int L>
inline constexpr int rows_in_registers = L == 16 ? tile_rows : 4;

template <int L, int Registers, tile_store Store>
[[gnu::always_inline]] inline void micro_tile(index depth, float const* a, index a_row,
                                              index a_depth, float const* b, index b_depth,
                                              float* c, index c_row) {
  for (int row = 0; row < tile_rows; row += rows_in_registers<L>)
    micro_rows<L, rows_in_registers<L>, Registers, Store>(depth, a + row * a_row, a_row, a_depth, b,
                                                          b_depth, c + row * c_row, c_row);
}

/// Sixteen pairs of bf16, or sums of their products.
typedef bf16_pair pairs_of_16 __attribute__((vector_size(64)));
typedef float sums_of_16 __attribute__((vector_size(64)));

/// sum + a b for both elements of each pair: products are exact, denormal numbers count as zero.
[[gnu::target("avx512f"), gnu::always_inline]] inline sums_of_16 multiply_pairs(sums_of_16 sum,
                                                                                pairs_of_16 a,
                                                                                pairs_of_16 b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));  // compilers differ in the intrinsic
  return sum;
}

template <tile_store Store>
[[gnu::target("avx512f"), gnu::always_inline]] inline void store_sums(float* to, sums_of_16 sum) {
  if constexpr (Store == tile_store::add) {
    sums_of_16 previous;
    __builtin_memcpy(&previous, to, sizeof previous);
    sum = previous + sum;
  }
  __builtin_memcpy(to, &sum, sizeof sum);
}

/// A tile of products of bf16 pairs; rows R = 0, ..., 7. It is one function without lambdas,
/// because lambdas would not be compiled for the instruction set that the asm needs.
template <int Registers, tile_store Store, int... R>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]] inline void micro_pairs(
    std::integer_sequence<int, R...>, index depth, bf16_pair const* a, index a_row, index a_depth,
    bf16_pair const* b, index b_depth, float* c, index c_row) {
  sums_of_16 sum[Registers][sizeof...(R)] = {};
  for (index k = 0; k < depth; ++k) {
    pairs_of_16 right[2];
    __builtin_memcpy(right, b, Registers * sizeof right[0]);
    ((sum[0][R] = multiply_pairs(sum[0][R], a[R * a_row] - pairs_of_16{}, right[0])), ...);
    if constexpr (Registers == 2)
      ((sum[1][R] = multiply_pairs(sum[1][R], a[R * a_row] - pairs_of_16{}, right[1])), ...);
    a += a_depth;
    b += b_depth;
  }
  (store_sums<Store>(c + R * c_row, sum[0][R]), ...);
  if constexpr (Registers == 2) (store_sums<Store>(c + R * c_row + 16, sum[1][R]), ...);
}

template <int L, int Registers, tile_store Store>
[[gnu::always_inline]] inline void micro_tile(index depth, bf16_pair const* a, index a_row,
                                              index a_depth, bf16_pair const* b, index b_depth,
                                              float* c, index c_row) {
  static_assert(L == 16, "pairs of bf16 are multiplied in registers of 16");
  micro_pairs<Registers, Store>(std::make_integer_sequence<int, tile_rows>{}, depth, a, a_row,
                                a_depth, b, b_depth, c, c_row);
}

/// Processes one or two registers of columns at a time, all rows for each, so that B stays in the
/// first-level cache.
template <int L, tile_store Store, class E>
[[gnu::always_inline]] inline void tile_loops(tile_of<E> const& t) {
  constexpr index wide = 2 * L;
  index const a_group = t.a_group != 0 ? t.a_group : tile_rows * t.a_row;
  for (index column = 0; column < t.columns; column += wide) {
    bool const two = column + wide <= t.columns;
    index const last_column = column + (two ? wide : L) - 1;
    for (index row = 0; row < t.rows; row += tile_rows) {
      auto const [begin, end] = t.needed(row, last_column);
      if (begin >= end && (Store == tile_store::add || t.is_unused())) continue;
      E const* const a = t.a + row / tile_rows * a_group + begin * t.a_depth;
      E const* const b = t.b + begin * t.b_depth + column;
      float* const c = t.c + row * t.c_row + column;
      if (two)
        micro_tile<L, 2, Store>(end - begin, a, t.a_row, t.a_depth, b, t.b_depth, c, t.c_row);
      else
        micro_tile<L, 1, Store>(end - begin, a, t.a_row, t.a_depth, b, t.b_depth, c, t.c_row);
    }
  }
}

template <tile_store Store, class E>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"), gnu::noinline]] inline void
tile_avx512(tile_of<E> const& t) {
  tile_loops<16, Store>(t);
}
template <tile_store Store, class E>
[[gnu::target("avx2,fma"), gnu::noinline]] inline void tile_avx2(tile_of<E> const& t) {
  tile_loops<8, Store>(t);
}
template <tile_store Store, class E>
[[gnu::noinline]] inline void tile_baseline(tile_of<E> const& t) {
  tile_loops<4, Store>(t);
}

/// C = A B or C += A B, for the instruction set of L lanes. Callable from any kernel.
template <int L, tile_store Store, class E>
inline void tile_product(tile_of<E> const& t) {
  if constexpr (L == 16)
    tile_avx512<Store>(t);
  else if constexpr (L == 8)
    tile_avx2<Store>(t);
  else
    tile_baseline<Store>(t);
}

}  // namespace parallel::host::detail
