// feed_forward: the two published forms, chosen at run time by whether there is a gate; f is any
// element-wise layer without parameters:
//   y = down(f(up(x)))                                       (Vaswani et al., 2017, section 3.3)
//   y = down(f(gate(x)) ∘ up(x)), a gated linear unit        (Shazeer, 2020)
#pragma once

#include <parallel/layer/dropped.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// `In` and `Out` are linear layers: plain ones on one rank, or column_linear and row_linear on
/// ranks that hold different hidden units (tensor/linear.hpp). Per row it keeps h = hidden numbers
/// twice (before f, and the input of down), three times with a gate; with a gate the result of f is
/// recomputed in the backward pass.
template <class Activation, class In = linear<typename Activation::element>,
          class Out = linear<typename Activation::element>>
struct feed_forward {
  using element = typename Activation::element;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return first_layer_of_whole_sequences<Activation, In, Out>(division);
  }
  using T = element;

  In up;           ///< [h, width]
  linear<T> gate;  ///< [h, width], or absent
  Out down;        ///< [width, h]
  Activation activate;

  struct saved {
    typename In::saved up;
    typename linear<T>::saved gate;
    typename Out::saved down;
    typename Activation::saved activate;
    matrix_view<T const> activation_input;  ///< the argument of f: up(x), or gate(x) with a gate
    matrix_view<T const> factor;            ///< up(x) with a gate
  };

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                             matrix_view<T const> summand = {}) const {
    auto const projected = up.forward(c, x, state.up);
    state.activation_input = local(projected);
    if (gated()) {
      state.factor = state.activation_input;
      state.activation_input = gate.forward(c, state.up.x, state.gate);
    }
    auto const project_down = [&](matrix_view<T> hidden) {
      if (gated()) ops::multiply(c.stream, hidden.span(), state.factor.span());
      return forward_onto(down, c, sliced_like(projected, hidden), state.down, summand);
    };
    if constexpr (droppable_before<Activation, Out>)
      return read_and_drop(activate, c, state.activation_input, state.activate, project_down);
    else
      return project_down(activate.forward(c, state.activation_input, state.activate));
  }

  template <class Stream>
  [[nodiscard]] auto backward_input(context<Stream>& c, matrix_view<T const> dy,
                                    saved& state) const {
    if constexpr (droppable_before<Activation, Out>)
      if (state.activate.dropped) {
        auto const hidden = recompute_result(activate, c, state.activate);
        if (gated()) ops::multiply(c.stream, hidden.span(), state.factor.span());
        down.restore_input(state.down, hidden);
      }
    auto const gradient = down.backward_input(c, dy, state.down);
    auto const d_hidden = local(gradient);
    if (!gated()) {
      auto const d_activation_input = activate.backward_input(c, d_hidden, state.activate);
      return backward_input_of(up, c, sliced_like(gradient, d_activation_input), state.up);
    }
    typename Activation::saved recomputed;
    auto const d_factor = activate.forward(c, state.activation_input, recomputed);
    ops::multiply(c.stream, d_factor.span(), std::span<T const>(d_hidden.span()));
    ops::multiply(c.stream, d_hidden.span(), state.factor.span());
    auto const d_activation_input = activate.backward_input(c, d_hidden, state.activate);
    auto const gate_gradient = gate.backward_input(c, d_activation_input, state.gate);
    return backward_input_of(up, c, sliced_like(gradient, d_factor), state.up, gate_gradient);
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    up.restore_input(state.up, x);
    if (gated()) gate.restore_input(state.gate, state.up.x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(down, c, state.down);
    backward_weight_of(up, c, state.up);
    if (gated()) backward_weight_of(gate, c, state.gate);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(up, visit);
    if (gated()) visit_parameters_of(gate, visit);
    visit_parameters_of(down, visit);
  }

 private:
  [[nodiscard]] bool gated() const { return gate.weight.is_present(); }
};

}  // namespace parallel
