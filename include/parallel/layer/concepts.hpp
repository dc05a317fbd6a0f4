// The layer concept: what a model is made of.
//
// The backward pass is written, not taped, and split: `backward_input` gives the gradient of the
// input, `backward_weight` adds to the gradients of the parameters. Between the two a schedule may
// do other work (zero-bubble pipelines live from it). `saved` is the layer's own struct of views
// into the arena; `forward` and `backward_input` fill it, `backward_weight` reads it, and no
// values of parameters: under ZeRO-3 they need not be there any more. Inputs are never overwritten;
// results are fresh views.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>

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

namespace detail {

/// Works on every element alike: L::elementwise says so.
template <class L>
concept elementwise = L::elementwise;

/// Says why a layer cannot be called with `X`.
template <class L, class X>
[[nodiscard]] matrix_view<typename L::element> refuse_input() {
  static_assert(reduced_value<X>,
                "a partial sum goes into a layer that takes whole values; put tensor::reduce "
                "before it");
  static_assert(!sliced_value<X>,
                "some of the columns (this rank's heads or hidden units) go into a layer that "
                "takes all of them; tensor::row_linear sums over the ranks, a plain linear does "
                "not");
  static_assert(!reduced_value<X> || sliced_value<X>,
                "a layer of a sequence cannot be called: its forward takes a context, what the "
                "layer before it gives as a view of const elements, and its own saved; "
                "tensor::row_linear takes what tensor::column_linear gives, tensor::reduce what "
                "tensor::sliced(layer) gives");
  return {};
}

template <class L, class Dy>
[[nodiscard]] matrix_view<typename L::element> refuse_gradient() {
  static_assert(reduced_value<Dy>,
                "a gradient that is a partial sum goes into a layer that takes whole values; put "
                "tensor::gather between this layer and the sliced one");
  static_assert(!sliced_value<Dy>,
                "the gradient of some of the columns (this rank's heads or hidden units) goes into "
                "a layer that takes all of them; tensor::column_linear sums over the ranks, a "
                "plain linear does not");
  static_assert(!reduced_value<Dy> || sliced_value<Dy>,
                "a layer of a sequence cannot be called: its backward_input takes a context, the "
                "gradient of its result as a view of const elements, and its own saved");
  return {};
}

/// Said once a layer.
template <class L, class Stream>
struct require_backward_weight {
  static_assert(
      requires(L const& l, context<Stream>& c, typename L::saved const& kept) {
        l.backward_weight(c, kept);
      },
      "a layer has no backward_weight(context, saved) that adds to its parameters' "
      "gradients; write one, a template over the context's stream, empty where there are "
      "no parameters (parallel/layer/concepts.hpp)");
};

}  // namespace detail

/// l.backward_weight(c, kept); of a layer that has none, the compiler says so.
template <class L, class Stream>
void backward_weight_of(L const& l, context<Stream>& c, typename L::saved const& kept) {
  if constexpr (requires { l.backward_weight(c, kept); })
    l.backward_weight(c, kept);
  else
    static_cast<void>(sizeof(detail::require_backward_weight<L, Stream>));
}

/// L(x). Slices of columns go through what works element by element; where L does not take x, the
/// compiler says why.
template <class L, class Stream, class X>
[[nodiscard]] auto forward_of(L const& l, context<Stream>& c, X x, typename L::saved& kept) {
  if constexpr (requires { l.forward(c, x, kept); })
    return l.forward(c, x, kept);
  else if constexpr (sliced_value<X> && detail::elementwise<L>)
    return placed_like(x, l.forward(c, local(x), kept));
  else
    return detail::refuse_input<L, X>();
}

/// The gradient of L's input, likewise; `more`, one or none, is added to it.
template <class L, class Stream, class Dy, class... More>
[[nodiscard]] auto backward_input_of(L const& l, context<Stream>& c, Dy dy, typename L::saved& kept,
                                     More... more) {
  if constexpr (requires { l.backward_input(c, dy, kept, {more}...); })
    return l.backward_input(c, dy, kept, {more}...);
  else if constexpr (sliced_value<Dy> && detail::elementwise<L>)
    return placed_like(dy, l.backward_input(c, local(dy), kept));
  else
    return detail::refuse_gradient<L, Dy>();
}

/// L(x) + onto, none when `onto` is empty. A layer that can add in its last operation, which spares
/// a pass over memory, takes `onto` as a fourth argument of `forward`; after others it is added. A
/// partial sum is left as it is, since what is added to every addend would count for each, and so
/// is a slice.
template <class L, class Stream, class X, class T>
[[nodiscard]] auto forward_onto(L const& l, context<Stream>& c, X x, typename L::saved& kept,
                                matrix_view<T const> onto) {
  if constexpr (requires { l.forward(c, x, kept, onto); }) {
    return l.forward(c, x, kept, onto);
  } else {
    auto y = forward_of(l, c, x, kept);
    if constexpr (std::is_same_v<decltype(y), matrix_view<T>>)  // else `residual` says why not
      if (!onto.empty()) ops::add(c.stream, y.span(), onto.span());
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
    auto dx = backward_input_of(l, c, dy, kept);
    if constexpr (std::is_same_v<decltype(dx), matrix_view<T>>)
      if (!onto.empty()) ops::add(c.stream, dx.span(), onto.span());
    return dx;
  }
}

/// Writes the gradient of L's input, plus `onto` where it is given (one, or none), to `dx`. A layer
/// whose last operation can write there has backward_input_into(c, dx, dy, kept), and
/// backward_input_into(c, dx, dy, kept, onto); what others give is copied.
template <class L, class Stream, class T, class Dy, class... Onto>
void backward_input_into(L const& l, context<Stream>& c, matrix_view<T> dx, Dy dy,
                         typename L::saved& kept, Onto... onto) {
  if constexpr (requires { l.backward_input_into(c, dx, dy, kept, onto...); }) {
    l.backward_input_into(c, dx, dy, kept, onto...);
  } else {
    auto const copy = [&](auto const& made) {
      if constexpr (whole_value<std::decay_t<decltype(made)>>)  // else `backward_input` says why
                                                                // not
        ops::copy(c.stream, dx.span(), std::span<T const>(made.span()));
    };
    if constexpr (sizeof...(Onto) == 0)
      copy(backward_input_of(l, c, dy, kept));
    else
      copy(backward_input_onto(l, c, dy, kept, onto...));
  }
}

}  // namespace parallel
