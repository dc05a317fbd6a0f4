// route and its gradient as kernels: the loops of the reference, a thread for each row.
//
// Without a bias and groups the choices are the host's (ops/experts/route.hpp); scores and weights
// differ from its in the last bits, as exponentials do. Cost: K passes of a thread over E logits.
#pragma once

#include <parallel/device/cuda/block.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/experts/route.hpp>

namespace parallel::cuda::kernels {

/// Rows is detail::routed_rows or detail::routed_rows_backward.
template <class Rows>
struct each_row {
  Rows rows;
  index count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_in_grid(b, static_cast<std::size_t>(count),
                     [this](std::size_t m) { rows.compute(static_cast<index>(m)); });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::route_arguments<A> const& a) {
  return grid{blocks_for(static_cast<std::size_t>(a.parts())),
              kernels::each_row<ops::detail::routed_rows<A>>{a.rows(), a.parts()}};
}

template <class T, class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::route_backward_arguments<T, A> const& a) {
  return grid{blocks_for(static_cast<std::size_t>(a.parts())),
              kernels::each_row<ops::detail::routed_rows_backward<T, A>>{a.rows(), a.parts()}};
}

}  // namespace parallel::cuda
