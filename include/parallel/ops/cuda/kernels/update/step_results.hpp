// step_totals and gradient_scale as kernels: the first thread of one block computes them.
#pragma once

#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/update/step_results.hpp>

namespace parallel::cuda::kernels {

template <class L>
struct step_totals {
  ops::step_sums<L>* out;
  statistics<L> const* microbatches;
  index count;
  L const* squares;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if (b.block() == 0 && b.thread() == 0)
      ops::detail::add_up_step(out, microbatches, count, squares);
  }
};

template <class A>
struct gradient_scale {
  A* out;
  ops::step_sums<double> const* sums;
  double threshold;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if (b.block() == 0 && b.thread() == 0)
      *out = static_cast<A>(ops::size_of_gradient(*sums, threshold).scale);
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class L>
[[nodiscard]] auto kernel_of(one_kernel, ops::step_totals_arguments<L> const& a) {
  return grid{std::size_t{1}, kernels::step_totals<L>{a.out, a.microbatches.data(),
                                                      std::ssize(a.microbatches), a.squares}};
}

template <class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::gradient_scale_arguments<A> const& a) {
  return grid{std::size_t{1}, kernels::gradient_scale<A>{a.out, a.sums, a.threshold}};
}

}  // namespace parallel::cuda
