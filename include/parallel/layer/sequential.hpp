// sequential and residual: the two ways in which layers compose. Both are layers themselves; their
// three passes follow from those of their parts. What passes between the parts of a sequence may be
// a placed value (a partial sum, say): the types of neighbours must fit.
#pragma once

#include <tuple>
#include <utility>

#include <parallel/core/placed.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/ops/elementwise.hpp>

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

  template <class Stream, class Dy = matrix_view<element const>>
  [[nodiscard]] auto backward_input(context<Stream>& c, Dy dy, saved& kept) const {
    return backward_from<sizeof...(Rest)>(c, dy, kept);
  }

  /// Last layer first: its gradients are the first that a reduction can take.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      constexpr std::size_t last = sizeof...(Rest);
      (std::get<last - I>(layers).backward_weight(c, std::get<last - I>(kept)), ...);
    }
    (std::make_index_sequence<1 + sizeof...(Rest)>{});
  }

  void visit_parameters(auto&& visit) {
    std::apply([&](auto&... layer) { (layer.visit_parameters(visit), ...); }, layers);
  }

 private:
  template <std::size_t I, class Stream, class X>
  [[nodiscard]] auto forward_from(context<Stream>& c, X x, saved& kept) const {
    static_assert(
        reduced_value<X> || requires { std::get<I>(layers).forward(c, x, std::get<I>(kept)); },
        "a partial sum goes into a layer that takes whole values; put tensor::reduce "
        "before it");
    auto y = std::get<I>(layers).forward(c, x, std::get<I>(kept));
    if constexpr (I == sizeof...(Rest))
      return y;
    else
      return forward_from<I + 1>(c, y, kept);
  }

  template <std::size_t I, class Stream, class Dy>
  [[nodiscard]] auto backward_from(context<Stream>& c, Dy dy, saved& kept) const {
    static_assert(
        reduced_value<Dy> ||
            requires { std::get<I>(layers).backward_input(c, dy, std::get<I>(kept)); },
        "a gradient that is a partial sum goes into a layer that takes whole values; put "
        "tensor::gather behind it");
    auto dx = std::get<I>(layers).backward_input(c, dy, std::get<I>(kept));
    if constexpr (I == 0)
      return dx;
    else
      return backward_from<I - 1>(c, dx, kept);
  }
};

/// y = x + L(x).
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
    auto y = inner.forward(c, x, kept);
    static_assert(reduced_value<decltype(y)>,
                  "the branch ends in a partial sum; put tensor::reduce behind it");
    ops::add(c.stream, y.span(), x.span());
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy,
                                                    saved& kept) const {
    auto dx = inner.backward_input(c, dy, kept);
    static_assert(reduced_value<decltype(dx)>,
                  "the branch's gradient is a partial sum; begin it with tensor::gather");
    ops::add(c.stream, dx.span(), dy.span());
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    inner.backward_weight(c, kept);
  }

  void visit_parameters(auto&& visit) { inner.visit_parameters(visit); }
};

}  // namespace parallel
