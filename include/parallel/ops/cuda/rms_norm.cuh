// Launchers of rms_norm and its gradients on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/rms_norm.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/norm_weight_gradient.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::rms_norm_arguments<T> const& a) {
  using A = accumulate_t<T>;
  detail::launch_rows(
      s, "rms_norm", a.x.rows, a.x.columns,
      kernels::rms_norm<T>{a.y, a.x, a.weight.data(), a.rstd.empty() ? nullptr : a.rstd.data(),
                           static_cast<A>(a.options.eps)},
      warp_size * sizeof(A));
}

template <class T>
void enqueue(stream& s, ops::rms_norm_backward_input_arguments<T> const& a) {
  detail::launch_rows(s, "rms_norm_backward_input", a.x.rows, a.x.columns,
                      kernels::rms_norm_backward_input<T>{a.dx, a.dy, a.x, a.weight.data(),
                                                          a.rstd.data(), a.addend},
                      warp_size * sizeof(accumulate_t<T>));
}

template <class T>
void enqueue(stream& s, ops::rms_norm_backward_weight_arguments<T> const& a) {
  detail::norm_weight_gradient<T, accumulate_t<T>>(s, "rms_norm_backward_weight", a.dweight.data(),
                                                   nullptr, a.dy, a.x, nullptr, a.rstd.data());
}

}  // namespace parallel::cuda
