// gather, reduce and sliced: a region around a layer of one's own that does not end in linear
// layers (those are in tensor/linear.hpp). What is exchanged is in the types: a layer on slices of
// its parameters gives an addend, which nothing but `reduce` takes.
//
//   residual(sequential(norm, gather, sliced(layer), reduce))        compiles
//   residual(sequential(norm, gather, sliced(layer)))                does not
#pragma once

#include <utility>

#include <parallel/layer/linear.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

/// Enters a region: x to all of its rows; backwards the sum of the addends of its gradient.
template <class T, class Comm>
struct gather {
  using element = T;
  struct saved {};

  region<Comm> of;

  template <class Stream>
  [[nodiscard]] matrix_view<T const> forward(context<Stream>& c, matrix_view<T const> x,
                                             saved&) const {
    return of.enter(c, x);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, addend<T> dy, saved&) const {
    return of.leave(c, dy);
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// Leaves a region: the sum of addends, plus a bias, which is added once.
template <class T, class Comm>
struct reduce {
  using element = T;
  struct saved {
    matrix_view<T const> dy;
  };

  region<Comm> of;
  parameter<T, 1> bias;  // [width], or absent

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, addend<T> x, saved&,
                                       matrix_view<T const> onto = {}) const {
    auto y = of.leave(c, x);
    add_bias_onto(c, y, bias, onto);
    return y;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T const> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                                    saved& kept) const {
    kept.dy = dy;
    return of.enter(c, dy);
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), kept.dy);
  }
  void visit_parameters(auto&& visit) {
    if (bias.present()) visit(bias);
  }
};

/// A layer that takes all rows and whose parameters are slices such that its results on all ranks
/// add up to the whole layer's, and so do its input gradients.
template <class Inner>
struct sliced {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  Inner inner;

  sliced() = default;
  explicit sliced(Inner layer) : inner(std::move(layer)) {}

  template <class Stream>
  [[nodiscard]] addend<element> forward(context<Stream>& c, matrix_view<element const> x,
                                        saved& kept) const {
    auto inside = c.of_all_rows();
    return {inner.forward(inside, x, kept)};
  }
  template <class Stream>
  [[nodiscard]] addend<element> backward_input(context<Stream>& c, matrix_view<element const> dy,
                                               saved& kept) const {
    auto inside = c.of_all_rows();
    return {inner.backward_input(inside, dy, kept)};
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight_of(inner, c, kept);
  }
  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

}  // namespace parallel::tensor
