// The products of all experts as kernels: tiles of the plain product (kernels/matmul.hpp) of each
// expert's rows, whose numbers the blocks read from device memory.
//
// Sums have the order of the plain product, in accumulate_t, for all element types. They run on the
// ordinary cores; a kernel for the tensor cores can take their place for float and bf16. Cost: as
// the plain product, and a pass of every block over the ends of all experts.
#pragma once

#include <cstdint>

#include <parallel/ops/cuda/kernels/matmul.hpp>
#include <parallel/ops/experts/grouped_matmul.hpp>

namespace parallel::cuda::kernels {

/// The ends of experts' rows in blocks of `rows` rows, as ops::expert_order has them.
struct expert_ends {
  std::int32_t const* ends;
  index blocks, experts, rows;

  [[nodiscard]] PARALLELLM_DEVICE index begin(index block, index expert) const {
    return block * rows + (expert > 0 ? ends[block * experts + expert - 1] : 0);
  }
  [[nodiscard]] PARALLELLM_DEVICE index end(index block, index expert) const {
    return block * rows + ends[block * experts + expert];
  }
};

/// C [N, n] = A [N, k] op(B_e) for the rows of each expert e; B_e is [k, n], or its transpose.
/// Blocks are those of kernels::matmul.
template <class T>
struct grouped_matmul {
  using product = matmul<T, T>;

  T* c;
  T const* a;
  T const* b;
  expert_ends segments;
  index n, k;
  bool transpose_b, accumulate;

  /// The most tiles that the rows can have.
  [[nodiscard]] index most_tiles() const {
    constexpr index tile = product::tile;
    index const rows = segments.blocks * segments.rows;
    return (rows / tile + segments.blocks * segments.experts) * ((n + tile - 1) / tile);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    constexpr index tile = product::tile;
    index const tiles_across = (n + tile - 1) / tile;
    index row_tile = 0;  // the first of an expert's rows
    index wanted = block.block();
    for (index q = 0; q < segments.blocks; ++q)
      for (index e = 0; e < segments.experts; ++e) {
        index const begin = segments.begin(q, e), rows = segments.end(q, e) - begin;
        index const end_tile = row_tile + (rows + tile - 1) / tile;
        for (; wanted < end_tile * tiles_across; wanted += block.blocks())
          product_of(begin, rows, e)
              .compute_tile(block, (wanted / tiles_across - row_tile) * tile,
                            wanted % tiles_across * tile);
        row_tile = end_tile;
      }
  }

 private:
  [[nodiscard]] PARALLELLM_DEVICE product product_of(index begin, index rows, index expert) const {
    T* const target = c + begin * n;
    return {target, a + begin * k, b + expert * n * k,           rows, n, k,
            false,  transpose_b,   accumulate ? target : nullptr};
  }
};

/// C_e [m, n] = A_eᵀ B_e, or C_e plus that, for the rows of each expert e of A [N, m] and B [N, n],
/// block after block.
template <class T>
struct grouped_matmul_weight {
  using C = accumulate_t<T>;
  using product = matmul<C, T>;

  C* c;
  T const* a;
  T const* b;
  expert_ends segments;
  index m, n;
  bool accumulate;

  [[nodiscard]] PARALLELLM_HOST_DEVICE index tiles() const {
    return segments.experts * product::tiles(m, n);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& block) const {
    constexpr index tile = product::tile;
    index const tiles_across = (n + tile - 1) / tile, tiles_of_expert = product::tiles(m, n);
    for (index t = block.block(); t < tiles(); t += block.blocks()) {
      index const e = t / tiles_of_expert, row = t % tiles_of_expert / tiles_across * tile,
                  column = t % tiles_across * tile;
      for (index q = 0; q < segments.blocks; ++q) {
        index const begin = segments.begin(q, e), rows = segments.end(q, e) - begin;
        C* const target = c + e * m * n;
        product{target,
                a + begin * m,
                b + begin * n,
                m,
                n,
                rows,
                true,
                false,
                accumulate || q > 0 ? target : nullptr}
            .compute_tile(block, row, column);
      }
    }
  }
};

}  // namespace parallel::cuda::kernels
