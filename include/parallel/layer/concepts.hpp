// The layer concept: the interface of every layer of a model.
//
// The backward pass is written by hand, without a tape, and has two halves: `backward_input`
// returns the gradient of the input, `backward_weight` adds to the gradients of the parameters. A
// schedule may do other work between the two (zero-bubble pipelines depend on it). `saved` is the
// layer's own struct of views into the arena: `forward` and `backward_input` fill it, and
// `backward_weight` reads it but no values of parameters, which under ZeRO-3 may have been
// resharded by then. A pass never overwrites its inputs; its results are new views.
#pragma once

#include <concepts>
#include <span>
#include <string_view>
#include <type_traits>

#include <parallel/core/parameter.hpp>
#include <parallel/core/partial_values.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// A layer maps [rows, in] to [rows, out] on the device of `Stream`.
template <class L, class Stream>
concept layer = requires(L const& l, L& mutable_layer, context<Stream>& c, typename L::saved& state,
                         matrix_view<typename L::element const> x) {
  { l.forward(c, x, state) } -> std::same_as<matrix_view<typename L::element>>;
  { l.backward_input(c, x, state) } -> std::same_as<matrix_view<typename L::element>>;
  l.backward_weight(c, state);
  mutable_layer.visit_parameters([](parameter_base<typename L::element>&) {});
};

/// The method by which ranks divide the rows of each sequence: context parallelism, or sequence
/// parallelism along the tensor axis.
enum class sequence_division { by_context, by_tensor };

namespace detail {
/// The name of L as the compiler writes it.
template <class L>
[[nodiscard]] constexpr std::string_view type_name() {
  std::string_view const function =
      __PRETTY_FUNCTION__;  // "... [with L = NAME; ...]", "[L = NAME]"
  auto const begin = function.find("L = ") + 4;
  return function.substr(begin, function.find_first_of(";]", begin) - begin);
}
}  // namespace detail

/// The name of the first layer in L that may need whole sequences; empty when all give the same
/// result where a rank holds some rows of each sequence (context::share). A layer says that it does
/// by `static constexpr bool takes_divided_sequences = true`: no row of its result depends on
/// another row of the input, or it exchanges rows with the other ranks. A composition has a
/// function of this name that asks its layers.
template <class L>
[[nodiscard]] constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
  if constexpr (requires { L::layer_of_whole_sequences(division); })
    return L::layer_of_whole_sequences(division);
  else if constexpr (requires { requires L::takes_divided_sequences; })
    return {};
  else
    return detail::type_name<L>();
}

/// The first such name among several layers.
template <class... Ls>
[[nodiscard]] constexpr std::string_view first_layer_of_whole_sequences(
    sequence_division division) {
  std::string_view name;
  static_cast<void>(((name = layer_of_whole_sequences<Ls>(division), !name.empty()) || ...));
  return name;
}

namespace detail {

/// A layer that treats every element alike, as L::elementwise declares.
template <class L>
concept elementwise = L::elementwise;

/// Reports at compile time why a layer cannot be called with `X`.
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

/// Instantiated once per layer type, so that the compiler reports the error once.
template <class L, class Stream>
struct require_backward_weight {
  static_assert(
      requires(L const& l, context<Stream>& c, typename L::saved const& state) {
        l.backward_weight(c, state);
      },
      "a layer has no backward_weight(context, saved) that adds to its parameters' "
      "gradients; write one, a template over the context's stream, empty if there "
      "are no parameters (parallel/layer/concepts.hpp)");
};

}  // namespace detail

/// Calls l.backward_weight(c, state); the compiler reports a layer that has none.
template <class L, class Stream>
void backward_weight_of(L const& l, context<Stream>& c, typename L::saved const& state) {
  if constexpr (requires { l.backward_weight(c, state); })
    l.backward_weight(c, state);
  else
    static_cast<void>(sizeof(detail::require_backward_weight<L, Stream>));
}

/// L(x). A column slice passes through an element-wise layer; where L does not take x, the compiler
/// reports why.
template <class L, class Stream, class X>
[[nodiscard]] auto forward_of(L const& l, context<Stream>& c, X x, typename L::saved& state) {
  if constexpr (requires { l.forward(c, x, state); })
    return l.forward(c, x, state);
  else if constexpr (sliced_value<X> && detail::elementwise<L>)
    return sliced_like(x, l.forward(c, local(x), state));
  else
    return detail::refuse_input<L, X>();
}

/// The gradient of L's input, by the same rules; `summand` (at most one) is added to it.
template <class L, class Stream, class Dy, class... Summand>
[[nodiscard]] auto backward_input_of(L const& l, context<Stream>& c, Dy dy,
                                     typename L::saved& state, Summand... summand) {
  if constexpr (requires { l.backward_input(c, dy, state, {summand}...); })
    return l.backward_input(c, dy, state, {summand}...);
  else if constexpr (sliced_value<Dy> && detail::elementwise<L>)
    return sliced_like(dy, l.backward_input(c, local(dy), state));
  else
    return detail::refuse_gradient<L, Dy>();
}

/// L(x) + summand, or L(x) when `summand` is empty. A layer that can add in its last operation,
/// which saves a pass over memory, takes `summand` as a fourth argument of `forward`; for other
/// layers an addition follows. A partial sum stays as it is, because a value added to the addend of
/// every rank would count once per rank; a slice stays as it is too.
template <class L, class Stream, class X, class T>
[[nodiscard]] auto forward_onto(L const& l, context<Stream>& c, X x, typename L::saved& state,
                                matrix_view<T const> summand) {
  if constexpr (requires { l.forward(c, x, state, summand); }) {
    return l.forward(c, x, state, summand);
  } else {
    auto y = forward_of(l, c, x, state);
    if constexpr (std::is_same_v<decltype(y), matrix_view<T>>)  // else `residual` reports the error
      if (!summand.empty()) ops::add(c.stream, y.span(), summand.span());
    return y;
  }
}

/// The gradient of L's input plus `summand`, by the same rules with `backward_input`.
template <class L, class Stream, class Dy, class T>
[[nodiscard]] auto backward_input_onto(L const& l, context<Stream>& c, Dy dy,
                                       typename L::saved& state, matrix_view<T const> summand) {
  if constexpr (requires { l.backward_input(c, dy, state, summand); }) {
    return l.backward_input(c, dy, state, summand);
  } else {
    auto dx = backward_input_of(l, c, dy, state);
    if constexpr (std::is_same_v<decltype(dx), matrix_view<T>>)
      if (!summand.empty()) ops::add(c.stream, dx.span(), summand.span());
    return dx;
  }
}

/// Writes the gradient of L's input, plus `summand` where there is one, to `dx`. A layer whose last
/// operation can write there has backward_input_into(c, dx, dy, state) and
/// backward_input_into(c, dx, dy, state, summand); the result of any other layer is copied.
template <class L, class Stream, class T, class Dy, class... Summand>
void backward_input_into(L const& l, context<Stream>& c, matrix_view<T> dx, Dy dy,
                         typename L::saved& state, Summand... summand) {
  if constexpr (requires { l.backward_input_into(c, dx, dy, state, summand...); }) {
    l.backward_input_into(c, dx, dy, state, summand...);
  } else {
    auto const copy = [&](auto const& result) {
      // other types: `backward_input` reports the error
      if constexpr (whole_value<std::decay_t<decltype(result)>>)
        ops::copy(c.stream, dx.span(), std::span<T const>(result.span()));
    };
    if constexpr (sizeof...(Summand) == 0)
      copy(backward_input_of(l, c, dy, state));
    else
      copy(backward_input_onto(l, c, dy, state, summand...));
  }
}

}  // namespace parallel
