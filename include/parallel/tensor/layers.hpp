// gather, reduce and sliced: a tensor region around a user's layer that does not end in linear
// layers (those are in tensor/linear.hpp). The types state what must be exchanged: a layer on
// slices of its parameters gives an addend, which only `reduce` takes.
//
//   residual(sequential(norm, gather, sliced(layer), reduce))        compiles
//   residual(sequential(norm, gather, sliced(layer)))                does not
#pragma once

#include <utility>

#include <parallel/layer/linear.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

/// Enters a region: gathers all rows of x; backwards it sums the addends of x's gradient.
template <class T, class Comm>
struct gather {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  struct saved {};

  region<Comm> tensor_region;

  template <class Stream>
  [[nodiscard]] matrix_view<T const> forward(context<Stream>& c, matrix_view<T const> x,
                                             saved&) const {
    return tensor_region.enter(c, x);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, addend<T> dy, saved&) const {
    return tensor_region.leave(c, dy);
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// Leaves a region: the sum of addends, plus a bias that is added once.
template <class T, class Comm>
struct reduce {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  struct saved {
    matrix_view<T const> dy;
  };

  region<Comm> tensor_region;
  parameter<T, 1> bias;  ///< [width], or absent

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, addend<T> x, saved&,
                                       matrix_view<T const> summand = {}) const {
    auto y = tensor_region.leave(c, x);
    add_bias_onto(c, y, bias, summand);
    return y;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T const> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                                    saved& state) const {
    state.dy = dy;
    return tensor_region.enter(c, dy);
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), state.dy);
  }
  void visit_parameters(auto&& visit) {
    if (bias.is_present()) visit(bias);
  }
};

/// A layer that takes all rows and holds slices of its parameters, such that its results on all
/// ranks add up to the whole layer's result, and its input gradients add up likewise.
template <class Inner>
struct sliced {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  /// In a region of the tensor axis a rank has all rows that the context axis gives it.
  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return division == sequence_division::by_tensor
               ? std::string_view{}
               : parallel::layer_of_whole_sequences<Inner>(division);
  }

  Inner inner;

  sliced() = default;
  explicit sliced(Inner layer) : inner(std::move(layer)) {}

  template <class Stream>
  [[nodiscard]] addend<element> forward(context<Stream>& c, matrix_view<element const> x,
                                        saved& state) const {
    auto region_context = c.for_all_rows();
    return {inner.forward(region_context, x, state)};
  }
  template <class Stream>
  [[nodiscard]] addend<element> backward_input(context<Stream>& c, matrix_view<element const> dy,
                                               saved& state) const {
    auto region_context = c.for_all_rows();
    return {inner.backward_input(region_context, dy, state)};
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(inner, c, state);
  }
  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

}  // namespace parallel::tensor
