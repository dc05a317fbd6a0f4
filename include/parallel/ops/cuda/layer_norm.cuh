// layer_norm and its gradients on cuda::stream. For nvcc. The gradient of weights uses two kernels,
// no atomics, and scratch of at most 2 * 512 * 32 packs of accumulate_t<T>, or two rows if those
// are wider.
#pragma once

#include <parallel/ops/cuda/kernels/layer_norm.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/norm_weight_gradient.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/layer_norm.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::layer_norm_arguments<T> const& a) {
  using A = accumulate_t<T>;
  detail::launch_rows(
      s, "layer_norm", a.x.rows, a.x.columns,
      kernels::layer_norm<T>{a.y, a.x, a.weight.data(), a.bias.empty() ? nullptr : a.bias.data(),
                             a.mean.empty() ? nullptr : a.mean.data(), a.rstd.data(),
                             static_cast<A>(a.options.eps)},
      2 * warp_size * sizeof(A));
}

template <class T>
void enqueue(stream& s, ops::layer_norm_backward_input_arguments<T> const& a) {
  detail::launch_rows(s, "layer_norm_backward_input", a.x.rows, a.x.columns,
                      kernels::layer_norm_backward_input<T>{a.dx, a.dy, a.x, a.weight.data(),
                                                            a.mean.data(), a.rstd.data(), a.addend},
                      2 * warp_size * sizeof(accumulate_t<T>));
}

template <class T>
void enqueue(stream& s, ops::layer_norm_backward_weight_arguments<T> const& a) {
  detail::norm_weight_gradient<T>(
      s, "layer_norm_backward_weight", a.dweight.empty() ? nullptr : a.dweight.data(),
      a.dbias.empty() ? nullptr : a.dbias.data(), a.dy, a.x, a.mean.data(), a.rstd.data());
}

}  // namespace parallel::cuda
