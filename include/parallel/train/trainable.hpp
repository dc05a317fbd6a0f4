// trainable: the message of the compiler where a model lacks something: one sentence, once a model,
// at every function that takes a model, before the model's types are used.
#pragma once

#include <concepts>

#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// Names the types that passes use.
template <class M>
concept names_types = requires {
  typename M::element;
  typename M::microbatch;
  typename M::block::saved;
};

/// Shows units of parameters of T.
template <class M, class T>
concept shows_units = requires(M& m) {
  m.visit_units(detail::unit_visitor<T>{});
};

/// A block between activations of T: like a layer, except that visit_units shows its parameters.
template <class B, class Stream, class T>
concept block_of = requires(B const& b, context<Stream>& c, matrix_view<T const> x,
                            typename B::saved& saved) {
  { b.forward(c, x, saved) } -> std::convertible_to<matrix_view<T>>;
  { b.backward_input(c, x, saved) } -> std::convertible_to<matrix_view<T const>>;
  b.backward_weight(c, saved);
};

/// A model whose passes run on a Stream.
template <class M, class Stream>
concept trainable =
    names_types<M> && block_of<typename M::block, Stream, typename M::element> && model<M, Stream>;

namespace detail {

template <class M>
struct require_types {
  static_assert(
      requires { typename M::element; },
      "the model names no type element: that of its parameters and activations, as "
      "float; say `using element = ...` (parallel/train/model.hpp)");
  static_assert(
      requires { typename M::microbatch; },
      "the model names no type microbatch: the views of a microbatch's data that "
      "the model's functions take; say `using microbatch = ...` (parallel/train/model.hpp)");
  static_assert(
      requires { typename M::block; },
      "the model names no type block: the layer that at(i) gives; say `using block = "
      "...` (parallel/train/model.hpp)");
  static_assert(
      !requires { typename M::block; } || requires { typename M::block::saved; },
      "the model's block names no type saved: what its forward pass keeps for the "
      "backward pass; give it one, empty if need be (parallel/layer/concepts.hpp)");
  static constexpr bool value = names_types<M>;
};

template <class M, class T>
struct require_units {
  static_assert(shows_units<M, T>,
                "the model has no visit_units(f) that calls f with each unit's name, layer, parts "
                "and uses (parallel/train/model.hpp)");
  static constexpr bool value = shows_units<M, T>;
};

template <class M, class Stream>
struct require_block {
  using B = typename M::block;
  using T = typename M::element;
  static_assert(
      requires(B const& b, context<Stream>& c, matrix_view<T const> x, typename B::saved& saved) {
        { b.forward(c, x, saved) } -> std::convertible_to<matrix_view<T>>;
      },
      "the model's block has no forward(context, x, saved) of any stream's context and a view of "
      "const elements, which gives a view of elements (parallel/layer/concepts.hpp)");
  static_assert(
      requires(B const& b, context<Stream>& c, matrix_view<T const> x, typename B::saved& saved) {
        { b.backward_input(c, x, saved) } -> std::convertible_to<matrix_view<T const>>;
      },
      "the model's block has no backward_input(context, dy, saved) of any stream's context and a "
      "view of const elements, which gives the gradient of x (parallel/layer/concepts.hpp)");
  static_assert(
      requires(B const& b, context<Stream>& c, typename B::saved& saved) {
        b.backward_weight(c, saved);
      },
      "the model's block has no backward_weight(context, saved) of any stream's context, which "
      "adds to its parameters' gradients; leave it empty if there are none "
      "(parallel/layer/concepts.hpp)");
  static constexpr bool value = block_of<B, Stream, T>;
};

template <class M, class Stream>
struct require_model {
  static_assert(model<M, Stream>,
                "the model lacks what train::model asks for (parallel/train/model.hpp), by name "
                "and types of arguments; inputs are views of const elements, contexts of any "
                "stream, since steps are planned on the meta device");
  static constexpr bool value = model<M, Stream>;
};

template <class M>
struct element_of {
  using type = void;
};
template <names_types M>
struct element_of<M> {
  using type = typename M::element;
};

}  // namespace detail

/// For a model that lacks something, these concepts make the compiler say what.
template <class M>
concept checked_types = detail::require_types<M>::value;
/// M shows its units in the form that training needs.
template <class M, class T>
concept checked_units = detail::require_units<M, T>::value;

/// M::element; void if there is none, so that the name is valid before the compiler's sentence.
template <class M>
using element_of = typename detail::element_of<M>::type;

/// A model whose passes run on a Stream; for another model, the compiler says what it lacks.
template <class M, class Stream>
concept checked_model = checked_types<M> && checked_units<M, element_of<M>> &&
    detail::require_block<M, Stream>::value && detail::require_model<M, Stream>::value;

namespace detail {

template <class M>
struct microbatch_of : require_types<M> {
  struct type {};
};
template <names_types M>
struct microbatch_of<M> {
  using type = typename M::microbatch;
};

}  // namespace detail

/// M::microbatch; for a model without types, an empty type, after the compiler's sentence.
template <class M>
using microbatch_of = typename detail::microbatch_of<M>::type;

}  // namespace parallel::train
