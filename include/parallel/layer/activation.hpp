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
  bool again = false;  // the result may be dropped, and made again (dropped.hpp)

  struct saved {
    matrix_view<T const> x;
    bool dropped = false;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    auto y = c.template allocate<T, 2>(x.extents());
    forward_into(c, y, x, kept);
    return y;
  }
  template <class Stream>
  void forward_into(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x,
                    saved& kept) const {
    kept.x = x;
    apply(c, y, kept);
  }
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, saved const& kept) const {
    ops::activation(c.stream, y.span(), kept.x.span(), kind);
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
