// The layer concept: what a model is made of.
//
// The backward pass is written, not taped, and split: `backward_input` gives the gradient of the
// input, `backward_weight` adds to the gradients of the parameters. Between the two a schedule may
// do other work (zero-bubble pipelines live from it). `saved` is the layer's own struct of views
// into the arena; `forward` and `backward_input` fill it, `backward_weight` reads it. Inputs are
// never overwritten; results are fresh views.
#pragma once

#include <concepts>

#include <parallel/core/parameter.hpp>
#include <parallel/core/placed.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel {

/// A layer from [rows, in] to [rows, out] on the device of `Stream`.
template <class L, class Stream>
concept layer = requires(L const& l, L& mutable_layer, context<Stream>& c, typename L::saved& kept,
                         matrix_view<typename L::element const> x) {
  { l.forward(c, x, kept) } -> std::same_as<matrix_view<typename L::element>>;
  { l.backward_input(c, x, kept) } -> std::same_as<matrix_view<typename L::element>>;
  l.backward_weight(c, kept);
  mutable_layer.visit_parameters([](parameter_base<typename L::element>&) {});
};

/// L(x) + onto, none when `onto` is empty. A layer that can add in its last operation, which spares
/// a pass over memory, takes `onto` as a fourth argument of `forward`; after others it is added. A
/// partial sum is left as it is: what is added to every addend would count for each.
template <class L, class Stream, class X, class T>
[[nodiscard]] auto forward_onto(L const& l, context<Stream>& c, X x, typename L::saved& kept,
                                matrix_view<T const> onto) {
  if constexpr (requires { l.forward(c, x, kept, onto); }) {
    return l.forward(c, x, kept, onto);
  } else {
    auto y = l.forward(c, x, kept);
    if constexpr (reduced_value<decltype(y)>)
      if (onto.size() > 0) ops::add(c.stream, y.span(), onto.span());
    return y;
  }
}

/// The gradient of L's input plus `onto`, likewise by a fourth argument of `backward_input`.
template <class L, class Stream, class Dy, class T>
[[nodiscard]] auto backward_input_onto(L const& l, context<Stream>& c, Dy dy,
                                       typename L::saved& kept, matrix_view<T const> onto) {
  if constexpr (requires { l.backward_input(c, dy, kept, onto); }) {
    return l.backward_input(c, dy, kept, onto);
  } else {
    auto dx = l.backward_input(c, dy, kept);
    if constexpr (reduced_value<decltype(dx)>)
      if (onto.size() > 0) ops::add(c.stream, dx.span(), onto.span());
    return dx;
  }
}

}  // namespace parallel
