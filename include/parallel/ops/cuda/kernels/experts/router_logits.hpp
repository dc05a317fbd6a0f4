// router_logits as a kernel: eight neighbouring threads have the eight sums of an element, and add
// them by halves.
//
// So logits of float and bf16 have the host's bits, and rows choose the same experts on both. (In
// double a GPU rounds products and sums together, and the last bits differ.) Each group of eight
// threads computes 4 rows by 4 experts, for which it reads 8 elements at a time of each. Cost: 2 M
// D E operations in double, which devices without fast double do at a small part of their rate.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/experts/router_logits.hpp>

namespace parallel::cuda::kernels {

template <class T>
struct router_logits {
  accumulate_t<T>* logits;
  T const* x;
  T const* weight;
  index rows, experts, width;

  static constexpr unsigned sums = 8;  ///< of an element, and threads of a group
  static constexpr unsigned side = 4;  ///< rows and experts of a group's tile

  [[nodiscard]] PARALLELLM_HOST_DEVICE index tiles() const {
    return (rows + side - 1) / side * ((experts + side - 1) / side);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr index groups = warp_size / sums;  // of a warp, all of which take part in exchanges
    index const tiles_across = (experts + side - 1) / side;
    index const warps = static_cast<index>(b.blocks()) * (b.threads() / warp_size);
    index const warp = static_cast<index>(b.block()) * (b.threads() / warp_size) +
                       static_cast<index>(b.thread() / warp_size);
    for (index first = warp * groups; first < tiles(); first += warps * groups) {
      index const tile = first + static_cast<index>(b.thread() % warp_size / sums);
      index const m = tile / tiles_across * side, e = tile % tiles_across * side;
      compute(b, m, e, tile < tiles());
    }
  }

 private:
  using sum = ops::detail::router_sum_t<T>;

  template <class Block>
  PARALLELLM_DEVICE void compute(Block& b, index m, index e, bool exists) const {
    unsigned const lane = b.thread() % sums;
    sum total[side][side] = {};
    T const* row_inputs[side];
    T const* expert_weights[side];
    unrolled<side>([&](unsigned i) {  // the last ones again where there are fewer
      row_inputs[i] = x + (m + i < rows ? m + i : rows - 1) * width;
      expert_weights[i] = weight + (e + i < experts ? e + i : experts - 1) * width;
    });
    for (index n = lane; exists && n < width; n += sums)
      unrolled<side>([&](unsigned i) {
        auto const element = static_cast<sum>(row_inputs[i][n]);
        unrolled<side>(
            [&](unsigned j) { total[i][j] += element * static_cast<sum>(expert_weights[j][n]); });
      });
    unrolled<side>([&](unsigned i) {
      unrolled<side>([&](unsigned j) {
        for (unsigned half = sums / 2; half > 0; half /= 2)
          total[i][j] += b.shuffle_xor(total[i][j], half);
        if (lane == 0 && exists && m + i < rows && e + j < experts)
          logits[(m + i) * experts + e + j] = static_cast<accumulate_t<T>>(total[i][j]);
      });
    });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::router_logits_arguments<T> const& a) {
  kernels::router_logits<T> const body{a.logits.data(), a.x.data(),         a.weight.data(),
                                       a.x.extent(0),   a.logits.extent(1), a.x.extent(1)};
  return grid{blocks_for(static_cast<std::size_t>(body.tiles()) * body.sums), body};
}

}  // namespace parallel::cuda
