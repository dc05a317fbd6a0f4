// Tiles of attention's kernels: rows of heads in shared memory, and the two products of tiles.
//
// A block is 16 x 16 threads. Of a product, each thread has the rows `row + 16 r` and columns
// `column + 16 c` in registers. The 16 threads of one row are neighbouring lanes of a warp, so a
// row is combined by shuffles. Rows in shared memory are as wide as the template parameter, filled
// up with zeros, plus 16 bytes: so neighbouring rows begin in different banks, and packs stay
// aligned.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/block.hpp>
#include <parallel/ops/attention/heads_view.hpp>

namespace parallel::cuda::kernels {

inline constexpr unsigned tile_side = 16;  // threads along each side
inline constexpr unsigned tile_threads = tile_side * tile_side;

/// Rows per thread in tiles of Width elements: four, or as many as 32 KiB hold.
template <class A, unsigned Width>
inline constexpr unsigned tile_rows = std::clamp<unsigned>(2048 / (Width * sizeof(A)), 1, 4);

/// Elements from one row to the next in shared memory.
template <class A>
[[nodiscard]] PARALLELLM_HOST_DEVICE constexpr unsigned tile_stride(unsigned width) {
  return width + pack_size<A>;
}

/// The position of a thread in a tile.
struct tile_position {
  unsigned row;
  unsigned column;
};
template <class Block>
[[nodiscard]] PARALLELLM_DEVICE tile_position position_in_tile(Block const& block) {
  return {block.thread() / tile_side, block.thread() % tile_side};
}

/// Combines the values of the 16 lanes of a row; each lane gets the same bits.
template <class Block, class A, class Op>
[[nodiscard]] PARALLELLM_DEVICE A combine_row(Block& block, A value, Op op) {
  for (unsigned mask = tile_side / 2; mask > 0; mask /= 2)
    value = op(value, block.shuffle_xor(value, mask));
  return value;
}

/// Whether rows of heads can be read and written `count` elements at once.
template <class T>
[[nodiscard]] PARALLELLM_DEVICE bool can_pack(ops::heads_view<T> const& view, unsigned count) {
  return reinterpret_cast<std::uintptr_t>(view.data) % (count * sizeof(T)) == 0 &&
         view.row_stride % count == 0 && view.batch_stride % count == 0 &&
         view.head_dim % count == 0;
}

/// to[r] = row (first + r) of head h of sequence b, for r < rows; zero beyond the end. All threads
/// take part and do not synchronise.
template <unsigned Width, class Block, class A, class T>
PARALLELLM_DEVICE void load_tile(Block const& block, A* to, unsigned rows,
                                 ops::heads_view<T const> const& from, index b, index h,
                                 index first) {
  constexpr unsigned pack_elements = pack_size<T>;
  constexpr unsigned step = pack_size<A>;
  static_assert(pack_elements % step == 0 && Width % pack_elements == 0);
  bool const packed = can_pack(from, pack_elements);
  for (unsigned n = block.thread(); n < rows * (Width / pack_elements); n += block.threads()) {
    unsigned const r = n / (Width / pack_elements);
    unsigned const i = n % (Width / pack_elements) * pack_elements;
    pack<A> values[pack_elements / step] = {};
    if (first + r < from.sequence && i < from.head_dim) {
      T const* const row = from.row(b, first + r, h) + i;
      if (packed) {
        auto const read = load_pack(row);
        for (unsigned e = 0; e < pack_elements; ++e)
          values[e / step].value[e % step] = static_cast<A>(read.value[e]);
      } else {
        for (unsigned e = 0; e < pack_elements; ++e)
          if (i + e < from.head_dim) values[e / step].value[e % step] = static_cast<A>(row[e]);
      }
    }
    for (unsigned e = 0; e < pack_elements / step; ++e)
      store_pack(to + r * tile_stride<A>(Width) + i + e * step, values[e]);
  }
}

/// products[r][c] += row (row + 16 r) of left · row (column + 16 c) of right.
template <unsigned Width, unsigned Rows, unsigned Columns, class A>
PARALLELLM_DEVICE void multiply_rows(A (&products)[Rows][Columns], A const* left, A const* right,
                                     tile_position thread) {
  constexpr unsigned pack_elements = pack_size<A>;
  constexpr unsigned stride = tile_stride<A>(Width);
  for (unsigned i = 0; i < Width; i += pack_elements) {
    pack<A> x[Rows];
    for (unsigned r = 0; r < Rows; ++r)
      x[r] = load_pack(left + (thread.row + r * tile_side) * stride + i);
    for (unsigned c = 0; c < Columns; ++c) {
      auto const y = load_pack(right + (thread.column + c * tile_side) * stride + i);
      for (unsigned r = 0; r < Rows; ++r)
        for (unsigned e = 0; e < pack_elements; ++e) products[r][c] += x[r].value[e] * y.value[e];
    }
  }
}

/// Sums of rows as wide as heads, in registers: of each of its rows a thread has the packs `column
/// + 16 n`.
template <class A, unsigned Width, unsigned Rows>
struct row_sums {
  static constexpr unsigned pack_elements = pack_size<A>;
  static constexpr unsigned count = Width / (tile_side * pack_elements);
  static_assert(count * tile_side * pack_elements == Width);

  pack<A> value[Rows][count];

  /// The first element of a row in pack n.
  [[nodiscard]] PARALLELLM_DEVICE static unsigned first(unsigned n, tile_position thread) {
    return (thread.column + n * tile_side) * pack_elements;
  }

  PARALLELLM_DEVICE void clear() {
    for (unsigned r = 0; r < Rows; ++r)
      for (unsigned n = 0; n < count; ++n) value[r][n] = {};
  }
  PARALLELLM_DEVICE void scale(unsigned r, A factor) {
    for (unsigned n = 0; n < count; ++n)
      for (unsigned e = 0; e < pack_elements; ++e) value[r][n].value[e] *= factor;
  }

  /// Adds weights[rows, 16 Columns] values[16 Columns, Width], both in shared memory.
  template <unsigned Columns>
  PARALLELLM_DEVICE void add_product(A const* weights, A const* values, tile_position thread) {
    for (unsigned j = 0; j < Columns * tile_side; j += pack_elements) {
      pack<A> w[Rows];
      for (unsigned r = 0; r < Rows; ++r)
        w[r] = load_pack(weights +
                         (thread.row + r * tile_side) * tile_stride<A>(Columns * tile_side) + j);
      for (unsigned k = 0; k < pack_elements; ++k)
        for (unsigned n = 0; n < count; ++n) {
          auto const x = load_pack(values + (j + k) * tile_stride<A>(Width) + first(n, thread));
          for (unsigned r = 0; r < Rows; ++r)
            for (unsigned e = 0; e < pack_elements; ++e)
              value[r][n].value[e] += w[r].value[k] * x.value[e];
        }
    }
  }

  /// Sets row r to the contents of `from` (a row of heads).
  template <class O>
  PARALLELLM_DEVICE void read(unsigned r, O const* from, index head_dim, tile_position thread) {
    for (unsigned n = 0; n < count; ++n)
      for (unsigned e = 0; e < pack_elements; ++e)
        if (index const i = first(n, thread) + e; i < head_dim)
          value[r][n].value[e] = static_cast<A>(from[i]);
  }

  /// Writes row r, with each element changed by f(element, destination) and rounded once. `packed`:
  /// whether `can_pack` holds for packs of A.
  template <class O, class F>
  PARALLELLM_DEVICE void write(unsigned r, O* to, index head_dim, bool packed, tile_position thread,
                               F const& f) const {
    struct alignas(pack_elements * sizeof(O)) piece {
      O value[pack_elements];
    };
    unroll<count>([&](auto n) {
      unsigned const i = first(n, thread);
      if (i >= head_dim) return;
      if (packed) {
        piece rounded;
        for (unsigned e = 0; e < pack_elements; ++e)
          rounded.value[e] = static_cast<O>(f(value[r][n].value[e], to + i + e));
        *reinterpret_cast<piece*>(to + i) = rounded;
      } else {
        for (unsigned e = 0; e < pack_elements; ++e)
          if (i + e < head_dim) to[i + e] = static_cast<O>(f(value[r][n].value[e], to + i + e));
      }
    });
  }
};

}  // namespace parallel::cuda::kernels
