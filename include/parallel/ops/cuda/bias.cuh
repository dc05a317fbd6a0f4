// The launchers of add_bias and its gradient on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/bias.hpp>
#include <parallel/ops/cuda/kernels/bias.hpp>
#include <parallel/ops/cuda/norm_weight_gradient.cuh>

namespace parallel::cuda {

template <class T>
void add_bias_impl(stream& s, matrix_view<T> y, vector_view<T const> bias,
                   matrix_view<T const> addend) {
  index const rows = y.extent(0), columns = y.extent(1);
  detail::launch(s, "add_bias", detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::add_bias<T>{y.data(), bias.data(),
                                      addend.empty() ? nullptr : addend.data(), rows, columns});
}

template <class T>
void add_bias_backward_impl(stream& s, vector_view<accumulate_t<T>> dbias,
                            matrix_view<T const> dy) {
  using A = accumulate_t<T>;
  ops::rows_view<T const> const rows(dy);
  detail::norm_weight_gradient<T>(s, "add_bias_backward", static_cast<A*>(nullptr), dbias.data(),
                                  rows, rows, static_cast<A const*>(nullptr),
                                  static_cast<A const*>(nullptr));
}

}  // namespace parallel::cuda
