// A matrix product without a library: blocked for the caches, in SIMD, for float and bf16.
//
// C is divided into blocks of 192 x 256, each computed by one thread: for every 256 of k, panels of
// A and B are copied to contiguous floats (which widens bf16 and resolves transposition) and
// multiplied; sums stay in float until the block is finished. The shape determines the order of all
// sums, so results do not depend on the number of threads. Scratch: 640 KiB per thread, in the
// stream's workspace. Speed: 81 to 95 GF/s of 117 on one Zen 4 core (512 x 768 x 768, float or
// bf16). (Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/ops/host/detail/operand.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/detail/tile.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

template <class T, class C>
struct gemm {
  index m = 0, n = 0, k = 0;
  operand<T> a, b;
  C* c = nullptr;
  index ldc = 0;
  C const* addend = nullptr;  // its rows are ldc apart; may be c

  static constexpr index block_m = 192;
  static constexpr index block_n = 256;
  static constexpr index block_k = 256;

  /// Copies a panel: `to[k * padded + i]` = element (i, k) for i < width, zero up to `padded`. The
  /// strides are those along the panel's width and along k; one of them is 1.
  template <int L>
  [[gnu::always_inline]] static void pack_panel(float* to, T const* from, index width_stride,
                                                index depth_stride, index width, index padded,
                                                index depth) {
    if (width_stride == 1) {
      for (index p = 0; p < depth; ++p)
        for (index i = 0; i < padded; i += 4)
          simd::store(to + p * padded + i, simd::load_partial<4>(from + p * depth_stride + i,
                                                                 width > i ? width - i : 0));
      return;
    }
    // the depth stride is 1: transposes, reading rows of `depth` elements
    for (index i = 0; i < padded; ++i) {
      if (i >= width)
        for (index p = 0; p < depth; ++p) to[p * padded + i] = 0.0F;
      else
        for (index p = 0; p < depth; ++p)
          to[p * padded + i] = static_cast<float>(from[i * width_stride + p]);
    }
  }

  struct space {
    explicit space(arena& memory)
        : a(memory, block_m * block_k),
          b(memory, block_k * block_n),
          sum(memory, block_m * block_n) {}
    scratch<float> a, b, sum;
  };

  /// Computes the block of C that begins at (row, column).
  template <int L>
  [[gnu::always_inline]] void block(index row, index column, space& buffers) const {
    constexpr index wide = 2 * L;
    index const rows = std::min(block_m, m - row);
    index const columns = std::min(block_n, n - column);
    for (index first_k = 0; first_k < k || first_k == 0; first_k += block_k) {
      index const depth = std::min(block_k, k - first_k);
      for (index i = 0; i < rows; i += tile_rows)
        pack_panel<L>(buffers.a.data() + i * depth, a.data + (row + i) * a.row + first_k * a.column,
                      a.row, a.column, std::min(tile_rows, rows - i), tile_rows, depth);
      for (index j = 0; j < columns; j += wide) {
        float* const panel = buffers.b.data() + j * depth;
        pack_panel<L>(panel, b.data + first_k * b.row + (column + j) * b.column, b.column, b.row,
                      std::min(wide, columns - j), wide, depth);
        tile const t{.rows = (rows + tile_rows - 1) / tile_rows * tile_rows,
                     .columns = wide,
                     .depth = depth,
                     .a = buffers.a.data(),
                     .a_row = 1,
                     .a_depth = tile_rows,
                     .a_group = tile_rows * depth,
                     .b = panel,
                     .b_depth = wide,
                     .c = buffers.sum.data() + j,
                     .c_row = block_n};
        if (first_k == 0)
          tile_product<L, tile_store::assign>(t);
        else
          tile_product<L, tile_store::add>(t);
      }
    }
    for (index i = 0; i < rows; ++i)
      for (index j = 0; j < columns; j += L) {
        C* const to = c + (row + i) * ldc + column + j;
        index const left = columns - j;
        auto sum = simd::load<L>(buffers.sum.data() + i * block_n + j);
        if (addend != nullptr) sum += simd::load_partial<L>(addend + (to - c), left);
        simd::store_partial(to, sum, left);
      }
  }

  /// `lanes`: see simd::dispatch_to.
  void operator()(workspace& memory, int threads, int lanes = simd::native_lanes()) const {
    if (m == 0 || n == 0) return;
    index const blocks_n = (n + block_n - 1) / block_n;
    index const blocks = (m + block_m - 1) / block_m * blocks_n;
    with_scratch<space>(memory, threads, blocks, [&](index task, space& buffers) {
      simd::dispatch_to(
          lanes, [&](auto width) __attribute__((always_inline)) {
            block<width>(task / blocks_n * block_m, task % blocks_n * block_n, buffers);
          });
    });
  }
};

}  // namespace parallel::host::detail
