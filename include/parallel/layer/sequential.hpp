// sequential and residual: the two ways in which layers compose. Both are layers, whose three
// passes follow from those of their parts. A value between the parts of a sequence may be a placed
// value (a partial sum, say), if the types of the neighbouring layers fit.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <parallel/core/partial_values.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/layer/dropped.hpp>

namespace parallel {

/// y = Lₙ(… L₂(L₁(x))).
template <class First, class... Rest>
struct sequential {
  using element = typename First::element;
  using saved = std::tuple<typename First::saved, typename Rest::saved...>;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return first_layer_of_whole_sequences<First, Rest...>(division);
  }

  std::tuple<First, Rest...> layers;

  sequential() = default;
  explicit sequential(First first, Rest... rest) : layers(std::move(first), std::move(rest)...) {}

  template <class Stream, class X = matrix_view<element const>>
  [[nodiscard]] auto forward(context<Stream>& c, X x, saved& state) const {
    return forward_from<0>(c, x, state);
  }
  /// The last layer adds `summand` in the forward pass, the first layer in the backward pass.
  template <class Stream, class X = matrix_view<element const>>
  [[nodiscard]] auto forward(context<Stream>& c, X x, saved& state,
                             matrix_view<element const> summand) const {
    return forward_from<0>(c, x, state, summand);
  }

  template <class Stream, class Dy = matrix_view<element const>>
  [[nodiscard]] auto backward_input(context<Stream>& c, Dy dy, saved& state) const {
    return backward_from<sizeof...(Rest)>(c, dy, state,
                                          [&](auto const& first, auto d, auto& first_state) {
                                            return backward_input_of(first, c, d, first_state);
                                          });
  }
  template <class Stream, class Dy = matrix_view<element const>>
  [[nodiscard]] auto backward_input(context<Stream>& c, Dy dy, saved& state,
                                    matrix_view<element const> summand) const {
    return backward_from<sizeof...(Rest)>(
        c, dy, state, [&](auto const& first, auto d, auto& first_state) {
          return backward_input_onto(first, c, d, first_state, summand);
        });
  }
  /// See concepts.hpp.
  template <class Stream, class Dy, class... Summand>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx, Dy dy, saved& state,
                           Summand... summand) const {
    backward_from<sizeof...(Rest)>(c, dy, state, [&](auto const& first, auto d, auto& first_state) {
      parallel::backward_input_into(first, c, dx, d, first_state, summand...);
    });
  }

  /// Last layer first: a reduction can start with its gradients.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      constexpr std::size_t last = sizeof...(Rest);
      (backward_weight_of(std::get<last - Index>(layers), c, std::get<last - Index>(state)), ...);
    }
    (std::make_index_sequence<1 + sizeof...(Rest)>{});
  }

  void visit_parameters(auto&& visit) {
    std::apply([&](auto&... layer) { (visit_parameters_of(layer, visit), ...); }, layers);
  }

 private:
  /// Whether layer `Index` can drop its result, which the next layer reads.
  template <std::size_t Index, class X = matrix_view<element const>>
  [[nodiscard]] static constexpr bool drops() {
    if constexpr (Index < sizeof...(Rest) && std::is_convertible_v<X, matrix_view<element const>>)
      return droppable_before<std::tuple_element_t<Index, std::tuple<First, Rest...>>,
                              std::tuple_element_t<Index + 1, std::tuple<First, Rest...>>>;
    else
      return false;
  }

  /// `summand` has at most one element.
  template <std::size_t Index, class Stream, class X, class... Summand>
  [[nodiscard]] auto forward_from(context<Stream>& c, X x, saved& state, Summand... summand) const {
    auto const& layer = std::get<Index>(layers);
    if constexpr (drops<Index, X>())
      return read_and_drop(layer, c, x, std::get<Index>(state), [&](matrix_view<element> y) {
        return forward_from<Index + 1>(c, matrix_view<element const>(y), state, summand...);
      });
    else if constexpr (Index < sizeof...(Rest))
      return forward_from<Index + 1>(c, forward_of(layer, c, x, std::get<Index>(state)), state,
                                     summand...);
    else if constexpr (sizeof...(Summand) == 0)
      return forward_of(layer, c, x, std::get<Index>(state));
    else
      return forward_onto(layer, c, x, std::get<Index>(state), summand...);
  }

  /// Calls finish(layer, dy, state) for the first layer.
  template <std::size_t Index, class Stream, class Dy, class Finish>
  auto backward_from(context<Stream>& c, Dy dy, saved& state, Finish const& finish) const {
    auto const& layer = std::get<Index>(layers);
    if constexpr (drops<Index>())
      if (std::get<Index>(state).dropped)
        std::get<Index + 1>(layers).restore_input(
            std::get<Index + 1>(state), recompute_result(layer, c, std::get<Index>(state)));
    if constexpr (Index > 0)
      return backward_from<Index - 1>(c, backward_input_of(layer, c, dy, std::get<Index>(state)),
                                      state, finish);
    else
      return finish(layer, dy, std::get<Index>(state));
  }
};

/// y = x + L(x). L adds x in its last operation where it can (forward_onto), and the gradient of
/// the identity path in the last operation of its backward pass, so the sums need no pass over
/// separate memory and are rounded once.
template <class Inner>
struct residual {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return parallel::layer_of_whole_sequences<Inner>(division);
  }

  Inner inner;

  residual() = default;
  explicit residual(Inner layer) : inner(std::move(layer)) {}

  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& state) const {
    auto y = forward_onto(inner, c, x, state, x);
    static_assert(reduced_value<decltype(y)>,
                  "the branch ends in a partial sum; put tensor::reduce after it");
    static_assert(!sliced_value<decltype(y)>,
                  "the branch ends in some of the columns; end it with tensor::row_linear");
    static_assert(!std::is_same_v<decltype(y), matrix_view<element const>>,
                  "the branch ends in a view of const elements; its last layer gives what it has "
                  "allocated, of mutable ones");
    if constexpr (std::is_same_v<decltype(y), matrix_view<element>>) return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy,
                                                    saved& state) const {
    auto dx = backward_input_onto(inner, c, dy, state, dy);
    static_assert(reduced_value<decltype(dx)>,
                  "the branch's gradient is a partial sum; begin it with tensor::gather");
    static_assert(!sliced_value<decltype(dx)>,
                  "the branch's gradient is some of the columns; begin it with "
                  "tensor::column_linear");
    static_assert(
        !std::is_same_v<decltype(dx), matrix_view<element const>>,
        "the branch's gradient is a view of const elements; its first layer gives what it "
        "has allocated, of mutable ones");
    if constexpr (std::is_same_v<decltype(dx), matrix_view<element>>) return dx;
  }
  /// See concepts.hpp.
  template <class Stream>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& state) const {
    parallel::backward_input_into(inner, c, dx, dy, state, dy);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(inner, c, state);
  }

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

}  // namespace parallel
