// activation: y = f(x), element by element; see ops/pointwise/activation.hpp. It has no parameters.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

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

/// The backward pass of a gated product f(x) ∘ factor, for an element-wise layer f: turns the
/// product's gradient into that of f(x), in place, and gives that of the factor. f(x) is computed
/// again.
template <class Activation, class Stream, class T>
[[nodiscard]] matrix_view<T> gated_backward(context<Stream>& c, Activation const& f,
                                            std::type_identity_t<matrix_view<T const>> x,
                                            std::type_identity_t<matrix_view<T const>> factor,
                                            matrix_view<T> gradient) {
  typename Activation::saved recomputed;
  auto const d_factor = f.forward(c, x, recomputed);
  ops::multiply(c.stream, d_factor.span(), std::span<T const>(gradient.span()));
  ops::multiply(c.stream, gradient.span(), factor.span());
  return d_factor;
}

}  // namespace parallel
