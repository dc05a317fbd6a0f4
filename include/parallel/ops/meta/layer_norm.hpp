// layer_norm on the meta device, counted an element: forward 8 (mean 1, variance 3, result 4),
// gradient of x 12 (13 with an addend), gradients of weight and bias 4 and 1.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/layer_norm.hpp>

namespace parallel::meta {

template <class T>
void layer_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> mean,
                     vector_view<accumulate_t<T>> rstd, ops::rows_view<T const> x,
                     vector_view<T const> weight, vector_view<T const> bias,
                     ops::layer_norm_options) {
  s.touch(y, mean, rstd, x, weight, bias);
  s.count(8 * static_cast<std::uint64_t>(x.rows * x.columns));
}

template <class T>
void layer_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                    ops::rows_view<T const> x, vector_view<T const> weight,
                                    vector_view<accumulate_t<T> const> mean,
                                    vector_view<accumulate_t<T> const> rstd,
                                    ops::rows_view<T const> addend) {
  s.touch(dx, dy, x, weight, mean, rstd, addend);
  s.count((addend.rows > 0 ? 13U : 12U) * static_cast<std::uint64_t>(x.rows * x.columns));
}

template <class T>
void layer_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                     vector_view<accumulate_t<T>> dbias, ops::rows_view<T const> dy,
                                     ops::rows_view<T const> x,
                                     vector_view<accumulate_t<T> const> mean,
                                     vector_view<accumulate_t<T> const> rstd) {
  s.touch(updates(dweight), updates(dbias), dy, x, mean, rstd);
  s.count((dbias.empty() ? 4U : 5U) * static_cast<std::uint64_t>(x.rows * x.columns));
}

}  // namespace parallel::meta
