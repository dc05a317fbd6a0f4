// step_totals and gradient_scale as kernels: the first thread of one block.
#pragma once

#include <parallel/ops/step_results.hpp>

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
