// linear: y = x Wᵀ + b, with W stored [out, in] as in PyTorch and the Hugging Face files, and with
// an optional low-rank adapter.
#pragma once

#include <type_traits>

#include <parallel/layer/concepts.hpp>
#include <parallel/layer/low_rank.hpp>
#include <parallel/ops/affine.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// y += bias + summand, each where present: the values that a sum over ranks must include once.
template <class Stream, class T>
void add_bias_onto(context<Stream>& c, matrix_view<T> y, parameter<T, 1> const& bias,
                   std::type_identity_t<matrix_view<T const>> summand) {
  if (bias.is_present())
    ops::add_bias(c.stream, y, bias.value(), summand);
  else if (summand.size() > 0)
    ops::add(c.stream, y.span(), summand.span());
}

/// Cost for M rows: 2·M·in·out operations forward, twice that backward. Keeps views of x and dy.
template <class T>
struct linear {
  using element = T;
  static constexpr bool takes_divided_sequences = true;

  parameter<T, 2> weight;    ///< [out, in]
  parameter<T, 1> bias;      ///< [out], or absent
  low_rank<T> adapter = {};  ///< added to the product, or absent

  struct saved {
    matrix_view<T const> x;   ///< [rows, in]
    matrix_view<T const> dy;  ///< [rows, out]
    typename low_rank<T>::saved adapter;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    save_input(c, x, state);
    auto y = c.template allocate<T, 2>({x.extent(0), weight.extents[0]});
    apply(c, y, x, state, summand);
    return y;
  }
  /// The two halves of `forward`, for a result that is released before the saved state:
  /// `save_input` allocates, `apply` writes the product to y [rows of state.x, out]. The summand,
  /// if any, is added together with the bias where there is one, so only the product is rounded
  /// twice.
  template <class Stream>
  void save_input(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    state.x = x;
    adapter.allocate_hidden(c, x.extent(0), state.adapter);
  }
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& state,
             matrix_view<T const> summand = {}) const {
    apply(c, y, x, state, summand, bias);
  }
  /// As `apply` above, with the bias of an enclosing layer.
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& state,
             matrix_view<T const> summand, parameter<T, 1> const& applied_bias) const {
    arena::scope const temporaries(c.memory);
    summand = adapter.forward(c, x, state.adapter, summand);
    if (applied_bias.is_present())
      ops::affine(c.stream, y, x, weight.value(), applied_bias.value(), summand);
    else
      ops::matmul(c.stream, y, x, weight.value(), {.transpose_b = true}, summand);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    state.dy = dy;
    auto dx = c.template allocate<T, 2>({dy.extent(0), weight.extents[1]});
    adapter.allocate_hidden_gradient(c, dy.extent(0), state.adapter);
    arena::scope const temporaries(c.memory);
    summand = adapter.backward_input(c, dy, state.adapter, summand);
    ops::matmul(c.stream, dx, dy, weight.value(), {}, summand);
    return dx;
  }

  /// Sets x, which was dropped, for the backward passes that follow.
  void restore_input(saved& state, matrix_view<T const> x) const { state.x = state.adapter.x = x; }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight(c, state, bias);
  }
  /// As `backward_weight` above, with the bias of an enclosing layer, as in `apply`.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state,
                       parameter<T, 1> const& applied_bias) const {
    bool const accumulate = !c.overwrites(weight);
    if (weight.has_gradient() && applied_bias.has_gradient())
      ops::affine_backward_weight(c.stream, weight.gradient(), applied_bias.gradient(), state.dy,
                                  state.x, accumulate);
    else if (weight.has_gradient())
      ops::matmul(c.stream, weight.gradient(), state.dy, state.x,
                  {.transpose_a = true, .accumulate = accumulate});
    else if (applied_bias.has_gradient())
      ops::add_bias_backward(c.stream, applied_bias.gradient(), state.dy);
    adapter.backward_weight(c, state.adapter);
  }

  void visit_parameters(auto&& visit) {
    weight.replaces_gradient = true;
    visit(weight);
    if (bias.is_present()) visit(bias);
    adapter.visit_parameters(visit);
  }
};

}  // namespace parallel
