// The launchers of rms_norm and its gradients on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/rms_norm.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/norm_weight_gradient.cuh>
#include <parallel/ops/cuda/rms_norm.hpp>

namespace parallel::cuda {

template <class T>
void rms_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> rstd,
                   ops::rows_view<T const> x, vector_view<T const> weight,
                   ops::rms_norm_options options) {
  using A = accumulate_t<T>;
  detail::launch_rows(
      s, "rms_norm", x.rows, x.columns,
      kernels::rms_norm<T>{y, x, weight.data(), rstd.empty() ? nullptr : rstd.data(),
                           static_cast<A>(options.eps)},
      warp_size * sizeof(A));
}

template <class T>
void rms_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                  ops::rows_view<T const> x, vector_view<T const> weight,
                                  vector_view<accumulate_t<T> const> rstd,
                                  ops::rows_view<T const> addend) {
  detail::launch_rows(
      s, "rms_norm_backward_input", x.rows, x.columns,
      kernels::rms_norm_backward_input<T>{dx, dy, x, weight.data(), rstd.data(), addend},
      warp_size * sizeof(accumulate_t<T>));
}

template <class T>
void rms_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                   ops::rows_view<T const> dy, ops::rows_view<T const> x,
                                   vector_view<accumulate_t<T> const> rstd) {
  detail::norm_weight_gradient<T, accumulate_t<T>>(s, "rms_norm_backward_weight", dweight.data(),
                                                   nullptr, dy, x, nullptr, rstd.data());
}

}  // namespace parallel::cuda
