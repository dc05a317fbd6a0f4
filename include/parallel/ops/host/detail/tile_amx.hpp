// Products of bf16 pairs by the processor's matrix unit (AMX): one instruction adds products over a
// depth of 32 bf16 to 16 x 16 sums.
//
// Two by two tiles of C accumulate in tile registers, so that every tile of A and B that is loaded
// is used twice. Instructions are written as asm: the assembler must know them, the compiler need
// not. Denormal numbers count as zero, as with AVX512-BF16; sums are added in another order.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/ops/host/detail/tile.hpp>
#include <parallel/ops/host/matrix_unit.hpp>

namespace parallel::host::detail {

/// The hardware that multiplies: registers of lanes, or the matrix unit.
enum class multiplier : unsigned char { lanes, matrix_unit };

/// The fastest multiplier of this processor for operands of E.
template <class E>
[[nodiscard]] inline multiplier fastest_multiplier() {
  if constexpr (std::is_same_v<E, bf16_pair>)
    if (has_matrix_unit()) return multiplier::matrix_unit;
  return multiplier::lanes;
}

/// While it lives, this thread's tile registers have the shapes that tile_product needs. The
/// destructor restores the previous shapes (those of a matrix library, or none); contents are lost.
class tile_shapes {
 public:
  explicit tile_shapes(multiplier method) : active_(method == multiplier::matrix_unit) {
    if (!active_) return;
    asm volatile("sttilecfg %0" : "=m"(before_));
    shapes wanted{.palette = 1};
    for (int i = 0; i < 8; ++i) {
      wanted.row_bytes[i] = 64;
      wanted.rows[i] = 16;
    }
    asm volatile("ldtilecfg %0" : : "m"(wanted));
  }
  tile_shapes(tile_shapes&&) = delete;
  ~tile_shapes() {
    if (active_) asm volatile("ldtilecfg %0" : : "m"(before_));
  }

 private:
  struct shapes {  // the processor's layout of a tile configuration
    std::uint8_t palette = 0, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(shapes) == 64);
  bool active_;
  shapes before_;
};

/// Loads tile register `Tile` from 16 rows of 64 bytes that are `row` elements of 4 bytes apart.
template <int Tile>
inline void load_tile(void const* from, index row) {
  asm volatile("tileloadd (%0,%1,4), %%tmm%c2" : : "r"(from), "r"(row), "i"(Tile) : "memory");
}
template <int Tile>
inline void store_tile(float* to, index row) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,4)" : : "r"(to), "r"(row), "i"(Tile) : "memory");
}
/// Initialises the sums of tile register `Tile`.
template <int Tile, tile_store Store>
inline void begin_tile(float const* from, index row) {
  if constexpr (Store == tile_store::add)
    load_tile<Tile>(from, row);
  else
    asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
/// Tile `Sum` += tile `A` (rows, depth) times tile `B` (depth, columns).
template <int Sum, int A, int B>
inline void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
}

/// Computes one or two by one or two tiles of C: sums are registers 0 to 3, A's tiles 4 and 5, B's
/// 6 and 7.
template <int Rows, int Columns, tile_store Store>
inline void micro_amx(index depth, bf16_pair const* a, index a_row, bf16_pair const* b,
                      index b_depth, float* c, index c_row) {
  begin_tile<0, Store>(c, c_row);
  if constexpr (Columns == 2) begin_tile<1, Store>(c + 16, c_row);
  if constexpr (Rows == 2) begin_tile<2, Store>(c + 16 * c_row, c_row);
  if constexpr (Rows == 2 && Columns == 2) begin_tile<3, Store>(c + 16 * c_row + 16, c_row);
  for (index k = 0; k < depth; k += 16) {
    load_tile<6>(b + k * b_depth, b_depth);
    load_tile<4>(a + k, a_row);
    multiply_tiles<0, 4, 6>();
    if constexpr (Columns == 2) {
      load_tile<7>(b + k * b_depth + 16, b_depth);
      multiply_tiles<1, 4, 7>();
    }
    if constexpr (Rows == 2) {
      load_tile<5>(a + 16 * a_row + k, a_row);
      multiply_tiles<2, 5, 6>();
      if constexpr (Columns == 2) multiply_tiles<3, 5, 7>();
    }
  }
  store_tile<0>(c, c_row);
  if constexpr (Columns == 2) store_tile<1>(c + 16, c_row);
  if constexpr (Rows == 2) store_tile<2>(c + 16 * c_row, c_row);
  if constexpr (Rows == 2 && Columns == 2) store_tile<3>(c + 16 * c_row + 16, c_row);
}

/// Computes the product `t` in a thread that has `tile_shapes`. Rows and columns are multiples of
/// 16, A's elements are neighbours in depth, and A and B hold zeros up to a depth that is a
/// multiple of 16.
template <tile_store Store>
[[gnu::noinline]] inline void tile_amx(tile_of<bf16_pair> const& t) {
  for (index column = 0; column < t.columns; column += 32)
    for (index row = 0; row < t.rows; row += 32) {
      bool const wide = column + 32 <= t.columns;
      bool const tall = row + 32 <= t.rows;
      auto const needed = t.needed(row, column + (wide ? 31 : 15));
      if (needed.begin >= needed.end && (Store == tile_store::add || t.is_unused())) continue;
      index const begin = needed.begin / 16 * 16;
      auto const run = [&](auto kernel) {
        kernel(needed.end - begin, t.a + row * t.a_row + begin, t.a_row,
               t.b + begin * t.b_depth + column, t.b_depth, t.c + row * t.c_row + column, t.c_row);
      };
      if (tall)
        run(wide ? micro_amx<2, 2, Store> : micro_amx<2, 1, Store>);
      else
        run(wide ? micro_amx<1, 2, Store> : micro_amx<1, 1, Store>);
    }
}

/// C = A B or C += A B by the chosen multiplier.
template <int L, tile_store Store, class E>
inline void tile_product(multiplier method, tile_of<E> const& t) {
  if constexpr (std::is_same_v<E, bf16_pair>)
    if (method == multiplier::matrix_unit) return tile_amx<Store>(t);
  tile_product<L, Store>(t);
}

}  // namespace parallel::host::detail
