// layer_norm and its gradients in plain loops. Statistics are summed in double.
#pragma once

#include <cmath>

#include <parallel/ops/layer_norm.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void layer_norm_impl(stream&, ops::rows_view<T> y, vector_view<accumulate_t<T>> mean,
                     vector_view<accumulate_t<T>> rstd, ops::rows_view<T const> x,
                     vector_view<T const> weight, vector_view<T const> bias,
                     ops::layer_norm_options options) {
  using A = accumulate_t<T>;
  auto const width = static_cast<double>(x.columns);
  for (index m = 0; m < x.rows; ++m) {
    double sum = 0.0;
    for (index n = 0; n < x.columns; ++n) sum += double(x.row(m)[n]);
    double const center = sum / width;
    double squares = 0.0;
    for (index n = 0; n < x.columns; ++n) {
      double const distance = double(x.row(m)[n]) - center;
      squares += distance * distance;
    }
    double const scale = 1.0 / std::sqrt(squares / width + double(options.eps));
    if (!mean.empty()) {
      mean(m) = static_cast<A>(center);
      rstd(m) = static_cast<A>(scale);
    }
    for (index n = 0; n < x.columns; ++n) {
      auto const normal = static_cast<A>((double(x.row(m)[n]) - center) * scale);
      A const shift = bias.empty() ? A(0) : A(bias(n));
      y.row(m)[n] = static_cast<T>(normal * A(weight(n)) + shift);
    }
  }
}

template <class T>
void layer_norm_backward_input_impl(stream&, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                    ops::rows_view<T const> x, vector_view<T const> weight,
                                    vector_view<accumulate_t<T> const> mean,
                                    vector_view<accumulate_t<T> const> rstd,
                                    ops::rows_view<T const> addend) {
  using A = accumulate_t<T>;
  auto const width = static_cast<double>(x.columns);
  for (index m = 0; m < x.rows; ++m) {
    auto const normal = [&](index n) { return (A(x.row(m)[n]) - mean(m)) * rstd(m); };
    auto const slope = [&](index n) { return A(dy.row(m)[n]) * A(weight(n)); };
    double sum = 0.0;      // of slopes: what a shift of all x would change
    double product = 0.0;  // of slope * normal: what a scaling of all x would change
    for (index n = 0; n < x.columns; ++n) {
      sum += double(slope(n));
      product += double(slope(n)) * double(normal(n));
    }
    auto const shift = static_cast<A>(sum / width);
    auto const stretch = static_cast<A>(product / width);
    for (index n = 0; n < x.columns; ++n) {
      A const gradient = rstd(m) * (slope(n) - shift - normal(n) * stretch);
      A const more = addend.rows > 0 ? A(addend.row(m)[n]) : A(0);
      dx.row(m)[n] = static_cast<T>(gradient + more);
    }
  }
}

template <class T>
void layer_norm_backward_weight_impl(stream&, vector_view<accumulate_t<T>> dweight,
                                     vector_view<accumulate_t<T>> dbias, ops::rows_view<T const> dy,
                                     ops::rows_view<T const> x,
                                     vector_view<accumulate_t<T> const> mean,
                                     vector_view<accumulate_t<T> const> rstd) {
  using A = accumulate_t<T>;
  for (index n = 0; n < x.columns; ++n) {
    double product = 0.0;
    double sum = 0.0;
    for (index m = 0; m < x.rows; ++m) {
      A const normal = (A(x.row(m)[n]) - mean(m)) * rstd(m);
      product += double(A(dy.row(m)[n])) * double(normal);
      sum += double(dy.row(m)[n]);
    }
    if (!dweight.empty()) dweight(n) += static_cast<A>(product);
    if (!dbias.empty()) dbias(n) += static_cast<A>(sum);
  }
}

}  // namespace parallel::reference
