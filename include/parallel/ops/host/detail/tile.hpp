// The small product all host kernels are made of: C[rows, columns] (+)= A[rows, depth] B[depth,
// columns] in float, with operands in cache.
//
// Eight rows by two registers of columns accumulate in registers; A is read one number at a time
// (so any strides do, transposition costs nothing), B and C in whole registers. Rows are a multiple
// of 8 and columns of the number of lanes: callers pad their scratch. Causal attention works on
// triangles of tiles; `bounds` says which part of a product is known to be zero or unused, in steps
// of eight rows or one register. One copy of the machine code for each instruction set.
#pragma once

#include <algorithm>
#include <utility>

#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// What a causal mask leaves of a product. With keys j, queries i: j is visible to i iff
/// j <= i + offset, both counted from the beginning of the tile.
enum class bounds : unsigned char {
  none,
  columns_from_row,    // rows are keys, columns queries: only columns >= row - offset are needed
  depth_until_column,  // depth is keys, columns queries: depth <= column + offset
  depth_until_row,     // depth is keys, rows queries: depth <= row + offset
  depth_from_row,      // depth is queries, rows keys: depth >= row - offset
};

struct tile {
  index rows = 0;     // multiple of 8
  index columns = 0;  // multiple of the lanes
  index depth = 0;
  float const* a = nullptr;
  index a_row = 0;    // from one row of A to the next
  index a_depth = 0;  // from one column of A to the next
  index a_group = 0;  // from row r to row r + 8, r a multiple of 8; 0: 8 a_row
  float const* b = nullptr;
  index b_depth = 0;  // from one row of B to the next
  float* c = nullptr;
  index c_row = 0;
  bounds limit = bounds::none;
  index offset = 0;
};

inline constexpr index tile_rows = 8;

enum class tile_store : unsigned char { assign, add };

/// body(integral_constant 0), body(1), ... without a loop: indices of arrays of registers must be
/// constants.
template <int... I, class Body>
[[gnu::always_inline]] inline void unrolled(std::integer_sequence<int, I...>, Body const& body) {
  (body(std::integral_constant<int, I>{}), ...);
}

template <int L, int Registers, tile_store Store>
[[gnu::always_inline]] inline void micro_tile(index depth, float const* a, index a_row,
                                              index a_depth, float const* b, index b_depth,
                                              float* c, index c_row) {
  using floats = simd::pack<float, L>;
  constexpr auto rows = std::make_integer_sequence<int, tile_rows>{};
  constexpr auto registers = std::make_integer_sequence<int, Registers>{};
  floats sum[tile_rows][Registers];
  unrolled(
      rows, [&](auto r) __attribute__((always_inline)) {
        unrolled(
            registers, [&](auto v) __attribute__((always_inline)) { sum[r][v] = floats(0.0F); });
      });
  float const* a_high = a + 4 * a_row;
  for (index k = 0; k < depth; ++k) {
    floats right[Registers];
    unrolled(
        registers, [&](auto v)
                       __attribute__((always_inline)) { right[v] = simd::load<L>(b + v * L); });
    unrolled(
        rows, [&](auto r) __attribute__((always_inline)) {
          floats const left(r < 4 ? a[r * a_row] : a_high[(r - 4) * a_row]);
          unrolled(
              registers, [&](auto v) __attribute__((always_inline)) {
                sum[r][v] = simd::fma(left, right[v], sum[r][v]);
              });
        });
    a += a_depth;
    a_high += a_depth;
    b += b_depth;
  }
  unrolled(
      rows, [&](auto r) __attribute__((always_inline)) {
        unrolled(
            registers, [&](auto v) __attribute__((always_inline)) {
              float* const to = c + r * c_row + v * L;
              if constexpr (Store == tile_store::add)
                simd::store(to, simd::load<L>(to) + sum[r][v]);
              else
                simd::store(to, sum[r][v]);
            });
      });
}

/// Columns of one register or two at a time, all rows for each: B stays in the first cache.
template <int L, tile_store Store>
[[gnu::always_inline]] inline void tile_loops(tile const& t) {
  constexpr index wide = 2 * L;
  index const a_group = t.a_group != 0 ? t.a_group : tile_rows * t.a_row;
  for (index column = 0; column < t.columns; column += wide) {
    bool const two = column + wide <= t.columns;
    index const last_column = column + (two ? wide : L) - 1;
    for (index row = 0; row < t.rows; row += tile_rows) {
      index begin = 0;
      index end = t.depth;
      switch (t.limit) {
        case bounds::none: break;
        case bounds::columns_from_row:
          if (last_column < row - t.offset) continue;
          break;
        case bounds::depth_until_column: end = std::min(end, last_column + t.offset + 1); break;
        case bounds::depth_until_row: end = std::min(end, row + tile_rows + t.offset); break;
        case bounds::depth_from_row: begin = std::max<index>(0, row - t.offset); break;
      }
      if (Store == tile_store::add && begin >= end) continue;
      float const* const a = t.a + row / tile_rows * a_group + begin * t.a_depth;
      float const* const b = t.b + begin * t.b_depth + column;
      float* const c = t.c + row * t.c_row + column;
      if (two)
        micro_tile<L, 2, Store>(end - begin, a, t.a_row, t.a_depth, b, t.b_depth, c, t.c_row);
      else
        micro_tile<L, 1, Store>(end - begin, a, t.a_row, t.a_depth, b, t.b_depth, c, t.c_row);
    }
  }
}

template <tile_store Store>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"), gnu::noinline]] inline void
tile_avx512(tile const& t) {
  tile_loops<16, Store>(t);
}
template <tile_store Store>
[[gnu::target("avx2,fma"), gnu::noinline]] inline void tile_avx2(tile const& t) {
  tile_loops<8, Store>(t);
}
template <tile_store Store>
[[gnu::noinline]] inline void tile_baseline(tile const& t) {
  tile_loops<4, Store>(t);
}

/// C = A B or C += A B, for the instruction set of L lanes. Callable from any kernel.
template <int L, tile_store Store>
inline void tile_product(tile const& t) {
  if constexpr (L == 16)
    tile_avx512<Store>(t);
  else if constexpr (L == 8)
    tile_avx2<Store>(t);
  else
    tile_baseline<Store>(t);
}

}  // namespace parallel::host::detail
