// The launchers of layer_norm and its gradients on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/layer_norm.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/layer_norm.hpp>
#include <parallel/ops/cuda/norm_weight_gradient.cuh>

namespace parallel::cuda {

template <class T>
void layer_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> mean,
                     vector_view<accumulate_t<T>> rstd, ops::rows_view<T const> x,
                     vector_view<T const> weight, vector_view<T const> bias,
                     ops::layer_norm_options options) {
  using A = accumulate_t<T>;
  detail::launch_rows(
      s, "layer_norm", x.rows, x.columns,
      kernels::layer_norm<T>{y, x, weight.data(), bias.empty() ? nullptr : bias.data(),
                             mean.empty() ? nullptr : mean.data(), rstd.data(),
                             static_cast<A>(options.eps)},
      2 * warp_size * sizeof(A));
}

template <class T>
void layer_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                    ops::rows_view<T const> x, vector_view<T const> weight,
                                    vector_view<accumulate_t<T> const> mean,
                                    vector_view<accumulate_t<T> const> rstd,
                                    ops::rows_view<T const> addend) {
  detail::launch_rows(s, "layer_norm_backward_input", x.rows, x.columns,
                      kernels::layer_norm_backward_input<T>{dx, dy, x, weight.data(), mean.data(),
                                                            rstd.data(), addend},
                      2 * warp_size * sizeof(accumulate_t<T>));
}

template <class T>
void layer_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                     vector_view<accumulate_t<T>> dbias, ops::rows_view<T const> dy,
                                     ops::rows_view<T const> x,
                                     vector_view<accumulate_t<T> const> mean,
                                     vector_view<accumulate_t<T> const> rstd) {
  detail::norm_weight_gradient<T>(
      s, "layer_norm_backward_weight", dweight.empty() ? nullptr : dweight.data(),
      dbias.empty() ? nullptr : dbias.data(), dy, x, mean.data(), rstd.data());
}

}  // namespace parallel::cuda
