// The plain product as a kernel: a block computes 64 x 64 elements of C, a thread 4 x 4 of them.
//
// It is for element types and shapes that vendor libraries do not support, and is the reference for
// their products. Every element is one sum over k in ascending order in accumulate_t<T>, beginning
// with the addend if there is one, rounded once: the order of the reference loops. Cost: 2 m n k
// operations on the ordinary (not the tensor) cores, at a fraction of their peak.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda::kernels {

/// C [m, n] = op(A) [m, k] op(B) [k, n], plus the addend [m, n] if there is one; all row-major.
/// Blocks have `block_threads` threads and `shared_bytes` of shared memory; `tiles(m, n)` tiles are
/// divided among them.
template <class C, class T>
struct matmul {
  C* c;
  T const* a;
  T const* b;
  index m, n, k;
  bool transpose_a, transpose_b;
  C const* addend;  // C, another matrix, or null

  using wide = accumulate_t<T>;
  static constexpr unsigned tile = 64;
  static constexpr unsigned depth = 16;  // steps of k between two barriers
  static constexpr unsigned side = 16;   // threads per side; each has every 16th row and column
  static constexpr unsigned per_thread = tile / side;
  static constexpr unsigned pitch = tile + 1;  // odd, so that a column is in different banks
  static constexpr unsigned block_threads = side * side;
  static constexpr std::size_t shared_bytes = sizeof(wide) * 2 * depth * pitch;

  [[nodiscard]] PARALLELLM_HOST_DEVICE static index tiles(index rows, index columns) {
    return (rows + tile - 1) / tile * ((columns + tile - 1) / tile);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    index const tiles_across = (n + tile - 1) / tile;
    for (index tile_index = block.block(); tile_index < tiles(m, n); tile_index += block.blocks())
      compute_tile(block, tile_index / tiles_across * tile, tile_index % tiles_across * tile);
  }

  /// The elements of C from this row and column on, with all threads of the block.
  template <class Block>
  PARALLELLM_DEVICE void compute_tile(Block& block, index row, index column) const {
    wide* const strip_a = block.template shared<wide>();
    wide* const strip_b = strip_a + depth * pitch;
    unsigned const thread_row = block.thread() / side;
    unsigned const thread_column = block.thread() % side;
    wide sum[per_thread][per_thread] = {};
    for_each_element(row + thread_row, column + thread_column,
                     [&](unsigned i, unsigned j, index element) {
                       if (addend != nullptr) sum[i][j] = static_cast<wide>(addend[element]);
                     });
    for (index step = 0; step < k; step += depth) {
      // element (i, d) of op(A) is a[i * row_stride + d * stride], and that of the transpose of
      // op(B) likewise
      load(block, strip_a, a, row, m, step, transpose_a ? 1 : k, transpose_a ? m : 1);
      load(block, strip_b, b, column, n, step, transpose_b ? k : 1, transpose_b ? 1 : n);
      block.sync();
      unsigned const steps = k - step < depth ? static_cast<unsigned>(k - step) : depth;
      for (unsigned d = 0; d < steps; ++d)
        for (unsigned i = 0; i < per_thread; ++i)
          for (unsigned j = 0; j < per_thread; ++j)
            sum[i][j] += strip_a[d * pitch + thread_row + i * side] *
                         strip_b[d * pitch + thread_column + j * side];
      block.sync();
    }
    for_each_element(
        row + thread_row, column + thread_column,
        [&](unsigned i, unsigned j, index element) { c[element] = static_cast<C>(sum[i][j]); });
  }

 private:
  /// Calls f(i, j, element) for the thread's elements of C that exist; `element` is the flat index.
  template <class F>
  PARALLELLM_DEVICE void for_each_element(index row, index column, F const& f) const {
    for (unsigned i = 0; i < per_thread; ++i)
      for (unsigned j = 0; j < per_thread; ++j)
        if (row + i * side < m && column + j * side < n)
          f(i, j, (row + i * side) * n + column + j * side);
  }

  /// strip[d * pitch + i] = element (first + i, step + d) of an operand of `rows` rows and k
  /// columns; elements beyond the end are zero. Neighbouring threads read neighbouring elements.
  template <class Block>
  PARALLELLM_DEVICE void load(Block const& block, wide* strip, T const* from, index first,
                              index rows, index step, index row_stride, index stride) const {
    for_each_in_block(block, tile * depth, [&](std::size_t t) {
      auto const i = static_cast<unsigned>(stride == 1 ? t / depth : t % tile);
      auto const d = static_cast<unsigned>(stride == 1 ? t % depth : t / tile);
      bool const exists = first + i < rows && step + d < k;
      strip[d * pitch + i] =
          exists ? static_cast<wide>(from[(first + i) * row_stride + (step + d) * stride])
                 : wide(0);
    });
  }
};

}  // namespace parallel::cuda::kernels
