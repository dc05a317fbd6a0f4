// feed_forward: the two published forms, chosen at run time by whether there is a gate, with f any
// layer without parameters that works element by element:
//   y = down(f(up(x)))                                       (Vaswani et al., 2017, section 3.3)
//   y = down(f(gate(x)) ∘ up(x)), a gated linear unit        (Shazeer, 2020)
#pragma once

#include <parallel/layer/dropped.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel {

/// `In` and `Out` are linear layers too: of one rank, or column_linear and row_linear of ranks that
/// hold other hidden units (tensor/linear.hpp). Keeps, a row, h = hidden numbers twice
/// (before f, and the input of down), three times with a gate; there f is computed again in the
/// backward pass rather than kept.
template <class Activation, class In = linear<typename Activation::element>,
          class Out = linear<typename Activation::element>>
struct feed_forward {
  using element = typename Activation::element;
  using T = element;

  In up;           // [h, width]
  linear<T> gate;  // [h, width], or absent
  Out down;        // [width, h]
  Activation activate;

  struct saved {
    typename In::saved up;
    typename linear<T>::saved gate;
    typename Out::saved down;
    typename Activation::saved activate;
    matrix_view<T const> sharp;   // what f is applied to: up(x), or gate(x)
    matrix_view<T const> factor;  // up(x) with a gate
  };

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& kept,
                             matrix_view<T const> onto = {}) const {
    auto const before = up.forward(c, x, kept.up);
    kept.sharp = local(before);
    if (gated()) {
      kept.factor = kept.sharp;
      kept.sharp = gate.forward(c, kept.up.x, kept.gate);
    }
    auto const read = [&](matrix_view<T> hidden) {
      if (gated()) ops::multiply(c.stream, hidden.span(), kept.factor.span());
      return forward_onto(down, c, placed_like(before, hidden), kept.down, onto);
    };
    if constexpr (droppable_before<Activation, Out>)
      return read_and_drop(activate, c, kept.sharp, kept.activate, read);
    else
      return read(activate.forward(c, kept.sharp, kept.activate));
  }

  template <class Stream>
  [[nodiscard]] auto backward_input(context<Stream>& c, matrix_view<T const> dy,
                                    saved& kept) const {
    if constexpr (droppable_before<Activation, Out>)
      if (kept.activate.dropped) {
        auto const hidden = made_again(activate, c, kept.activate);
        if (gated()) ops::multiply(c.stream, hidden.span(), kept.factor.span());
        down.input_again(kept.down, hidden);
      }
    auto const gradient = down.backward_input(c, dy, kept.down);
    auto const d_hidden = local(gradient);
    if (!gated()) {
      auto const d_sharp = activate.backward_input(c, d_hidden, kept.activate);
      return backward_input_of(up, c, placed_like(gradient, d_sharp), kept.up);
    }
    typename Activation::saved recomputed;
    auto const d_factor = activate.forward(c, kept.sharp, recomputed);
    ops::multiply(c.stream, d_factor.span(), std::span<T const>(d_hidden.span()));
    ops::multiply(c.stream, d_hidden.span(), kept.factor.span());
    auto const d_sharp = activate.backward_input(c, d_hidden, kept.activate);
    auto const through_gate = gate.backward_input(c, d_sharp, kept.gate);
    return backward_input_of(up, c, placed_like(gradient, d_factor), kept.up, through_gate);
  }

  /// As of linear.
  void input_again(saved& kept, matrix_view<T const> x) const {
    up.input_again(kept.up, x);
    if (gated()) gate.input_again(kept.gate, kept.up.x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight_of(down, c, kept.down);
    backward_weight_of(up, c, kept.up);
    if (gated()) backward_weight_of(gate, c, kept.gate);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(up, visit);
    if (gated()) visit_parameters_of(gate, visit);
    visit_parameters_of(down, visit);
  }

 private:
  [[nodiscard]] bool gated() const { return gate.weight.present(); }
};

}  // namespace parallel
