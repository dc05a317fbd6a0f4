// feed_forward: the two published forms, chosen at run time by whether there is a gate; f is any
// element-wise layer without parameters:
//   y = down(f(up(x)))                                       (Vaswani et al., 2017, section 3.3)
//   y = down(f(gate(x)) ∘ up(x)), a gated linear unit        (Shazeer, 2020)
// Gate and up may be one matrix, whose result is [gate(x) | up(x)].
#pragma once

#include <parallel/layer/activation.hpp>
#include <parallel/layer/dropped.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// `In` and `Out` are linear layers: plain ones on one rank, or column_linear and row_linear on
/// ranks that hold different hidden units (tensor/linear.hpp). Per row it keeps h = hidden numbers
/// twice (before f, and the input of down), three times with a gate; with a gate the result of f is
/// recomputed in the backward pass. One matrix for both costs one more copy of its result in each
/// direction.
template <class Activation, class In = linear<typename Activation::element>,
          class Out = linear<typename Activation::element>>
struct feed_forward {
  using element = typename Activation::element;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return first_layer_of_whole_sequences<Activation, In, Out>(division);
  }
  using T = element;

  In up;           ///< [h, width], or with the gate [2h, width]
  linear<T> gate;  ///< [h, width], or absent
  Out down;        ///< [width, h]
  Activation activate;
  bool up_has_gate = false;  ///< the first half of up's rows is the gate

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
    auto const projected = project(c, x, state);
    auto const project_down = [&](matrix_view<T> hidden) {
      if (is_gated()) ops::multiply(c.stream, hidden.span(), state.factor.span());
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
        if (is_gated()) ops::multiply(c.stream, hidden.span(), state.factor.span());
        down.restore_input(state.down, hidden);
      }
    auto const gradient = down.backward_input(c, dy, state.down);
    auto const d_hidden = local(gradient);
    if (!is_gated()) {
      auto const d_activation_input = activate.backward_input(c, d_hidden, state.activate);
      return backward_input_of(up, c, sliced_like(gradient, d_activation_input), state.up);
    }
    auto const d_factor =
        gated_backward(c, activate, state.activation_input, state.factor, d_hidden);
    auto const d_activation_input = activate.backward_input(c, d_hidden, state.activate);
    if (up_has_gate)
      return backward_input_of(
          up, c, sliced_like(gradient, side_by_side(c, d_activation_input, d_factor)), state.up);
    auto const gate_gradient = gate.backward_input(c, d_activation_input, state.gate);
    return backward_input_of(up, c, sliced_like(gradient, d_factor), state.up, gate_gradient);
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    up.restore_input(state.up, x);
    if (has_own_gate()) gate.restore_input(state.gate, state.up.x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(down, c, state.down);
    backward_weight_of(up, c, state.up);
    if (has_own_gate()) backward_weight_of(gate, c, state.gate);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(up, visit);
    if (has_own_gate()) visit_parameters_of(gate, visit);
    visit_parameters_of(down, visit);
  }

 private:
  [[nodiscard]] bool has_own_gate() const { return gate.weight.is_present(); }
  [[nodiscard]] bool is_gated() const { return up_has_gate || has_own_gate(); }

  /// Sets the argument of f and the factor; gives a value of the type of up's result.
  template <class Stream>
  [[nodiscard]] auto project(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    if (up_has_gate) return project_packed(c, x, state);
    auto const projected = up.forward(c, x, state.up);
    state.activation_input = local(projected);
    if (has_own_gate()) {
      state.factor = state.activation_input;
      state.activation_input = gate.forward(c, state.up.x, state.gate);
    }
    return projected;
  }
  template <class Stream>
  [[nodiscard]] auto project_packed(context<Stream>& c, matrix_view<T const> x,
                                    saved& state) const {
    using result = decltype(up.forward(c, x, state.up));
    up.save_input(c, x, state.up);
    index const rows = matrix_view<T const>(state.up.x).extent(0);
    index const h = width_of(up) / 2;
    auto const gates = c.template allocate<T, 2>({rows, h});
    auto const factors = c.template allocate<T, 2>({rows, h});
    state.activation_input = gates;
    state.factor = factors;
    arena::scope const temporaries(c.memory);
    auto const packed = c.template allocate<T, 2>({rows, 2 * h});
    up.apply(c, packed, x, state.up);
    ops::rows_view<T const> const columns(packed);
    ops::copy(c.stream, ops::rows_view<T>(gates), columns.slice_columns(0, h));
    ops::copy(c.stream, ops::rows_view<T>(factors), columns.slice_columns(h, 2 * h));
    return sliced_like(result{}, gates);
  }

  /// [left | right], of which each has the same width.
  template <class Stream>
  [[nodiscard]] static matrix_view<T> side_by_side(context<Stream>& c, matrix_view<T const> left,
                                                   matrix_view<T const> right) {
    index const h = left.extent(1);
    auto const packed = c.template allocate<T, 2>({left.extent(0), 2 * h});
    ops::rows_view<T> const columns(packed);
    ops::copy(c.stream, columns.slice_columns(0, h), ops::rows_view<T const>(left));
    ops::copy(c.stream, columns.slice_columns(h, 2 * h), ops::rows_view<T const>(right));
    return packed;
  }

  [[nodiscard]] static index width_of(linear<T> const& layer) { return layer.weight.extents[0]; }
  template <class Wrapper>
  [[nodiscard]] static index width_of(Wrapper const& layer) {
    return width_of(layer.inner);
  }
};

}  // namespace parallel
