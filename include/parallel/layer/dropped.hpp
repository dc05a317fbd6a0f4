// Results that are not kept for the backward pass but recomputed there from the input, which is
// kept: those of norms and of activation functions, whose forward pass is cheap compared with the
// matrix products that read it (selective recomputation: Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", 2022). The recomputation is the same operation on the
// same numbers, so gradients have the same bits.
//
// A layer whose result can be dropped has the switch `is_droppable`, `forward_into` and `apply`
// (norm.hpp). The layer that reads the result has `restore_input`, which gives it the recomputed
// input.
#pragma once

#include <type_traits>

#include <parallel/layer/context.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// Whether the result of L, read by Next, can be dropped.
template <class L, class Next>
concept droppable_before = requires(L const& l, typename L::saved& state, Next const& next,
                                    typename Next::saved& next_state,
                                    matrix_view<typename L::element const> y) {
  l.is_droppable;
  state.dropped;
  next.restore_input(next_state, y);
};

/// consume(L(x)). With `is_droppable` a training pass drops L(x) when `consume` returns, if the
/// context has a scratch arena.
template <class L, class Stream, class Consume, class T = typename L::element>
[[nodiscard]] auto read_and_drop(L const& l, context<Stream>& c,
                                 std::type_identity_t<matrix_view<T const>> x,
                                 typename L::saved& state, Consume const& consume) {
  state.dropped =
      l.is_droppable && c.mode == pass::training && c.scratch != nullptr && c.scratch != &c.memory;
  if (!state.dropped) return consume(l.forward(c, x, state));
  arena::scope const temporaries(*c.scratch);
  auto const y = c.scratch->template allocate<T, 2>(x.extents());
  l.forward_into(c, y, x, state);
  return consume(y);
}

/// Recomputes L(x) in the backward pass.
template <class L, class Stream, class T = typename L::element>
[[nodiscard]] matrix_view<T> recompute_result(L const& l, context<Stream>& c,
                                              typename L::saved const& state) {
  ops::rows_view<T const> const x(state.x);
  auto const y = c.template allocate<T, 2>({x.rows, x.columns});
  l.apply(c, y, state);
  return y;
}

}  // namespace parallel
