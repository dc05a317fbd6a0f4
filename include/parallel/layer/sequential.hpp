// sequential and residual: the two ways in which layers compose. Both are layers themselves; their
// three passes follow from those of their parts. What passes between the parts of a sequence may be
// a placed value (a partial sum, say): the types of neighbours must fit.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <parallel/core/placed.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/layer/dropped.hpp>

namespace parallel {

/// y = Lₙ(… L₂(L₁(x))).
template <class First, class... Rest>
struct sequential {
  using element = typename First::element;
  using saved = std::tuple<typename First::saved, typename Rest::saved...>;

  std::tuple<First, Rest...> layers;

  sequential() = default;
  explicit sequential(First first, Rest... rest) : layers(std::move(first), std::move(rest)...) {}

  template <class Stream, class X = matrix_view<element const>>
  [[nodiscard]] auto forward(context<Stream>& c, X x, saved& kept) const {
    return forward_from<0>(c, x, kept);
  }
  /// `onto` goes to the last layer, backwards to the first.
  template <class Stream, class X = matrix_view<element const>>
  [[nodiscard]] auto forward(context<Stream>& c, X x, saved& kept,
                             matrix_view<element const> onto) const {
    return forward_from<0>(c, x, kept, onto);
  }

  template <class Stream, class Dy = matrix_view<element const>>
  [[nodiscard]] auto backward_input(context<Stream>& c, Dy dy, saved& kept) const {
    return backward_from<sizeof...(Rest)>(c, dy, kept,
                                          [&](auto const& first, auto d, auto& of_first) {
                                            return backward_input_of(first, c, d, of_first);
                                          });
  }
  template <class Stream, class Dy = matrix_view<element const>>
  [[nodiscard]] auto backward_input(context<Stream>& c, Dy dy, saved& kept,
                                    matrix_view<element const> onto) const {
    return backward_from<sizeof...(Rest)>(c, dy, kept,
                                          [&](auto const& first, auto d, auto& of_first) {
                                            return backward_input_onto(first, c, d, of_first, onto);
                                          });
  }
  /// See concepts.hpp.
  template <class Stream, class Dy, class... Onto>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx, Dy dy, saved& kept,
                           Onto... onto) const {
    backward_from<sizeof...(Rest)>(c, dy, kept, [&](auto const& first, auto d, auto& of_first) {
      parallel::backward_input_into(first, c, dx, d, of_first, onto...);
    });
  }

  /// Last layer first: its gradients are the first that a reduction can take.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      constexpr std::size_t last = sizeof...(Rest);
      (backward_weight_of(std::get<last - Index>(layers), c, std::get<last - Index>(kept)), ...);
    }
    (std::make_index_sequence<1 + sizeof...(Rest)>{});
  }

  void visit_parameters(auto&& visit) {
    std::apply([&](auto&... layer) { (visit_parameters_of(layer, visit), ...); }, layers);
  }

 private:
  /// Whether layer `Index` can drop its result, which the next one reads.
  template <std::size_t Index, class X = matrix_view<element const>>
  [[nodiscard]] static constexpr bool drops() {
    if constexpr (Index < sizeof...(Rest) && std::is_convertible_v<X, matrix_view<element const>>)
      return droppable_before<std::tuple_element_t<Index, std::tuple<First, Rest...>>,
                              std::tuple_element_t<Index + 1, std::tuple<First, Rest...>>>;
    else
      return false;
  }

  /// `onto`: one, or none.
  template <std::size_t Index, class Stream, class X, class... Onto>
  [[nodiscard]] auto forward_from(context<Stream>& c, X x, saved& kept, Onto... onto) const {
    auto const& layer = std::get<Index>(layers);
    if constexpr (drops<Index, X>())
      return read_and_drop(layer, c, x, std::get<Index>(kept), [&](matrix_view<element> y) {
        return forward_from<Index + 1>(c, matrix_view<element const>(y), kept, onto...);
      });
    else if constexpr (Index < sizeof...(Rest))
      return forward_from<Index + 1>(c, forward_of(layer, c, x, std::get<Index>(kept)), kept,
                                     onto...);
    else if constexpr (sizeof...(Onto) == 0)
      return forward_of(layer, c, x, std::get<Index>(kept));
    else
      return forward_onto(layer, c, x, std::get<Index>(kept), onto...);
  }

  /// finish(layer, dy, kept): the first layer's.
  template <std::size_t Index, class Stream, class Dy, class Finish>
  auto backward_from(context<Stream>& c, Dy dy, saved& kept, Finish const& finish) const {
    auto const& layer = std::get<Index>(layers);
    if constexpr (drops<Index>())
      if (std::get<Index>(kept).dropped)
        std::get<Index + 1>(layers).input_again(std::get<Index + 1>(kept),
                                                made_again(layer, c, std::get<Index>(kept)));
    if constexpr (Index > 0)
      return backward_from<Index - 1>(c, backward_input_of(layer, c, dy, std::get<Index>(kept)),
                                      kept, finish);
    else
      return finish(layer, dy, std::get<Index>(kept));
  }
};

/// y = x + L(x). L adds x in its last operation where it can (forward_onto), and the gradient that
/// goes around it in the last of its backward pass, so the sums take no pass over memory of their
/// own and are rounded once.
template <class Inner>
struct residual {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  Inner inner;

  residual() = default;
  explicit residual(Inner layer) : inner(std::move(layer)) {}

  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& kept) const {
    auto y = forward_onto(inner, c, x, kept, x);
    static_assert(reduced_value<decltype(y)>,
                  "the branch ends in a partial sum; put tensor::reduce behind it");
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
                                                    saved& kept) const {
    auto dx = backward_input_onto(inner, c, dy, kept, dy);
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
                           matrix_view<element const> dy, saved& kept) const {
    parallel::backward_input_into(inner, c, dx, dy, kept, dy);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight_of(inner, c, kept);
  }

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

}  // namespace parallel
