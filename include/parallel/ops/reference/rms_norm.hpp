// rms_norm and its gradients in plain loops. Squares are summed in double.
#pragma once

#include <cmath>

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::reference {

template <class T>
void rms_norm_impl(stream&, ops::rows_view<T> y, vector_view<accumulate_t<T>> rstd,
                   ops::rows_view<T const> x, vector_view<T const> weight,
                   ops::rms_norm_options options) {
  using A = accumulate_t<T>;
  for (index m = 0; m < x.rows; ++m) {
    double squares = 0.0;
    for (index n = 0; n < x.columns; ++n) squares += double(x.row(m)[n]) * double(x.row(m)[n]);
    double const scale = 1.0 / std::sqrt(squares / static_cast<double>(x.columns) + options.eps);
    if (!rstd.empty()) rstd(m) = static_cast<A>(scale);
    for (index n = 0; n < x.columns; ++n)
      y.row(m)[n] = static_cast<T>(static_cast<A>(double(x.row(m)[n]) * scale) * A(weight(n)));
  }
}

template <class T>
void rms_norm_backward_input_impl(stream&, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                  ops::rows_view<T const> x, vector_view<T const> weight,
                                  vector_view<accumulate_t<T> const> rstd,
                                  ops::rows_view<T const> addend) {
  using A = accumulate_t<T>;
  for (index m = 0; m < x.rows; ++m) {
    auto const normal = [&](index n) { return A(x.row(m)[n]) * rstd(m); };
    auto const slope = [&](index n) { return A(dy.row(m)[n]) * A(weight(n)); };
    double product = 0.0;  // of slope * normal: what a scaling of all x would change
    for (index n = 0; n < x.columns; ++n) product += double(slope(n)) * double(normal(n));
    auto const stretch = static_cast<A>(product / static_cast<double>(x.columns));
    for (index n = 0; n < x.columns; ++n) {
      A const gradient = rstd(m) * (slope(n) - normal(n) * stretch);
      A const more = addend.rows > 0 ? A(addend.row(m)[n]) : A(0);
      dx.row(m)[n] = static_cast<T>(gradient + more);
    }
  }
}

template <class T>
void rms_norm_backward_weight_impl(stream&, vector_view<accumulate_t<T>> dweight,
                                   ops::rows_view<T const> dy, ops::rows_view<T const> x,
                                   vector_view<accumulate_t<T> const> rstd) {
  using A = accumulate_t<T>;
  for (index n = 0; n < x.columns; ++n) {
    double product = 0.0;
    for (index m = 0; m < x.rows; ++m)
      product += double(A(dy.row(m)[n])) * double(A(x.row(m)[n]) * rstd(m));
    dweight(n) += static_cast<A>(product);
  }
}

}  // namespace parallel::reference
