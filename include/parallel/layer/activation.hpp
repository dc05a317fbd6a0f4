// activation: y = f(x), element by element; see ops/pointwise/activation.hpp. It has no parameters.
#pragma once

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel {

template <class T>
struct activation {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  static constexpr bool elementwise = true;

  ops::activation_kind kind = ops::activation_kind::gelu;
  bool is_droppable = false;  ///< the result may be dropped and recomputed (dropped.hpp)

  struct saved {
    matrix_view<T const> x;
    bool dropped = false;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& state) const {
    auto y = c.template allocate<T, 2>(x.extents());
    forward_into(c, y, x, state);
    return y;
  }
  template <class Stream>
  void forward_into(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x,
                    saved& state) const {
    state.x = x;
    apply(c, y, state);
  }
  /// Computes y from the saved input: in the forward pass, and in the backward pass for a dropped
  /// y.
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, saved const& state) const {
    ops::activation(c.stream, y.span(), state.x.span(), kind);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state) const {
    auto dx = c.template allocate<T, 2>(dy.extents());
    ops::activation_backward(c.stream, dx.span(), state.x.span(), dy.span(), kind);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}

  void visit_parameters(auto&&) {}
};

}  // namespace parallel
