// rms_norm on the meta device, counted an element: forward 4 (mean square 2, result 2), gradient of
// x 8 (9 with an addend), gradient of weight 3.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::meta {

template <class T>
void rms_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> rstd,
                   ops::rows_view<T const> x, vector_view<T const> weight, ops::rms_norm_options) {
  s.touch(y, rstd, x, weight);
  s.count(4 * static_cast<std::uint64_t>(x.rows * x.columns));
}

template <class T>
void rms_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                  ops::rows_view<T const> x, vector_view<T const> weight,
                                  vector_view<accumulate_t<T> const> rstd,
                                  ops::rows_view<T const> addend) {
  s.touch(dx, dy, x, weight, rstd, addend);
  s.count((addend.rows > 0 ? 9U : 8U) * static_cast<std::uint64_t>(x.rows * x.columns));
}

template <class T>
void rms_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                   ops::rows_view<T const> dy, ops::rows_view<T const> x,
                                   vector_view<accumulate_t<T> const> rstd) {
  s.touch(updates(dweight), dy, x, rstd);
  s.count(3 * static_cast<std::uint64_t>(x.rows * x.columns));
}

}  // namespace parallel::meta
