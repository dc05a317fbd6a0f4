// activation: y = f(x), element by element; see ops/activation.hpp. No parameters.
#pragma once

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/activation.hpp>

namespace parallel {

template <class T>
struct activation {
  using element = T;
  static constexpr bool elementwise = true;

  ops::activation_kind kind = ops::activation_kind::gelu;

  struct saved {
    matrix_view<T const> x;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    kept.x = x;
    auto y = c.template allocate<T, 2>(x.extents());
    ops::activation(c.stream, y.span(), x.span(), kind);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    auto dx = c.template allocate<T, 2>(dy.extents());
    ops::activation_backward(c.stream, dx.span(), kept.x.span(), dy.span(), kind);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}

  void visit_parameters(auto&&) {}
};

}  // namespace parallel
