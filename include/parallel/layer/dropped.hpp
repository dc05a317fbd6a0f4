// Results that are not kept for the backward pass but made again there from the input, which is
// kept: those of norms and of activation functions, whose forward pass costs little beside the
// products that read it (selective recomputation: Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", 2022). The same operation on the same numbers, so
// gradients have the same bits.
//
// A layer whose result can be dropped has a switch, `again`, `forward_into` and `apply` (norm.hpp).
// The layer that reads the result has `input_again`, by which it is told where it is.
#pragma once

#include <type_traits>

#include <parallel/layer/context.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// Whether the result of L, read by Next, can be dropped.
template <class L, class Next>
concept droppable_before = requires(L const& l, typename L::saved& kept, Next const& next,
                                    typename Next::saved& of_next,
                                    matrix_view<typename L::element const> y) {
  l.again;
  kept.dropped;
  next.input_again(of_next, y);
};

/// read(L(x)). With `again` a training pass drops L(x) when `read` returns, if the context has
/// another place for results that are of no use later.
template <class L, class Stream, class Read, class T = typename L::element>
[[nodiscard]] auto read_and_drop(L const& l, context<Stream>& c,
                                 std::type_identity_t<matrix_view<T const>> x,
                                 typename L::saved& kept, Read const& read) {
  kept.dropped =
      l.again && c.mode == pass::training && c.scratch != nullptr && c.scratch != &c.memory;
  if (!kept.dropped) return read(l.forward(c, x, kept));
  arena::scope const while_read(*c.scratch);
  auto const y = c.scratch->template allocate<T, 2>(x.extents());
  l.forward_into(c, y, x, kept);
  return read(y);
}

/// L(x) once more, in the backward pass.
template <class L, class Stream, class T = typename L::element>
[[nodiscard]] matrix_view<T> made_again(L const& l, context<Stream>& c,
                                        typename L::saved const& kept) {
  ops::rows_view<T const> const x(kept.x);
  auto const y = c.template allocate<T, 2>({x.rows, x.columns});
  l.apply(c, y, kept);
  return y;
}

}  // namespace parallel
