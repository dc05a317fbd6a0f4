// The launchers of step_totals and gradient_scale on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/step_results.hpp>
#include <parallel/ops/cuda/step_results.hpp>

namespace parallel::cuda {

template <class L>
void step_totals_impl(stream& s, ops::step_sums<L>* out,
                      std::span<statistics<L> const> microbatches, L const* squares) {
  detail::launch(
      s, "step_totals", 1,
      kernels::step_totals<L>{out, microbatches.data(), std::ssize(microbatches), squares});
}

template <class A>
void gradient_scale_impl(stream& s, A* out, ops::step_sums<double> const* sums, double threshold) {
  detail::launch(s, "gradient_scale", 1, kernels::gradient_scale<A>{out, sums, threshold});
}

}  // namespace parallel::cuda
