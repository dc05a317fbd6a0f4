// gelu: y = x Φ(x), the exact (erf) form (Hendrycks, Gimpel, 2016, eq. 1). No parameters.
#pragma once

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/gelu.hpp>

namespace parallel {

template <class T>
struct gelu {
  using element = T;

  struct saved {
    matrix_view<T const> x;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    kept.x = x;
    auto y = c.template allocate<T, 2>(x.extents());
    ops::gelu(c.stream, y.span(), x.span());
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    auto dx = c.template allocate<T, 2>(dy.extents());
    ops::gelu_backward(c.stream, dx.span(), kept.x.span(), dy.span());
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}

  void visit_parameters(auto&&) {}
};

}  // namespace parallel
