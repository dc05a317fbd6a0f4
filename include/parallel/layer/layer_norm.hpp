// layer_norm: y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension
// (Ba, Kiros, Hinton, 2016). Statistics are kept in the accumulation type.
#pragma once

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/layer_norm.hpp>

namespace parallel {

/// Keeps x (a view) and two numbers a row.
template <class T>
struct layer_norm {
  using element = T;

  parameter<T, 1> weight;  // [width]
  parameter<T, 1> bias;    // [width], or absent
  double eps = 1e-5;

  struct saved {
    matrix_view<T const> x;
    matrix_view<T const> dy;
    vector_view<accumulate_t<T>> mean;  // [rows]
    vector_view<accumulate_t<T>> rstd;  // [rows]
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    kept.x = x;
    kept.mean = c.template allocate<accumulate_t<T>, 1>({x.extent(0)});
    kept.rstd = c.template allocate<accumulate_t<T>, 1>({x.extent(0)});
    auto y = c.template allocate<T, 2>(x.extents());
    ops::layer_norm(c.stream, y, kept.mean, kept.rstd, x, weight.value(), bias.value(),
                    {.eps = eps});
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    kept.dy = dy;
    auto dx = c.template allocate<T, 2>(dy.extents());
    ops::layer_norm_backward_input(c.stream, dx, dy, kept.x, weight.value(), kept.mean, kept.rstd);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (!weight.has_gradient() && !bias.has_gradient()) return;
    ops::layer_norm_backward_weight(c.stream, weight.gradient(), bias.gradient(), kept.dy, kept.x,
                                    kept.mean, kept.rstd);
  }

  void visit_parameters(auto&& visit) {
    visit(weight);
    if (bias.present()) visit(bias);
  }
};

}  // namespace parallel
