// Launchers of add_bias and its gradient on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/bias.hpp>
#include <parallel/ops/cuda/norm/norm_weight_gradient.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/pointwise/bias.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::add_bias_arguments<T> const& a) {
  index const rows = a.y.extent(0), columns = a.y.extent(1);
  detail::launch(s, "add_bias", detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::add_bias<T>{a.y.data(), a.bias.data(),
                                      a.addend.empty() ? nullptr : a.addend.data(), rows, columns});
}

template <class T>
void enqueue(stream& s, ops::add_bias_backward_arguments<T> const& a) {
  using A = accumulate_t<T>;
  ops::rows_view<T const> const rows(a.dy);
  detail::norm_weight_gradient<T>(s, "add_bias_backward", static_cast<A*>(nullptr), a.dbias.data(),
                                  rows, rows, static_cast<A const*>(nullptr),
                                  static_cast<A const*>(nullptr));
}

}  // namespace parallel::cuda
