// recompute: a layer whose activations are not kept but recomputed for the backward pass (Chen, Xu,
// Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016). Around every block this
// is full recomputation; around parts of some blocks it is selective (Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models", 2022).
//
// The second forward pass repeats the first: the same operations in the same order at the same
// position of the run, with the same dropout masks, since those are functions of that position, so
// gradients have the same bits. The layer repeats its exchanges too, on all ranks alike, including
// its last sum; nothing reads the result of that sum, so the summand is not added again.
#pragma once

#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// Inner, whose result has the extents of its input. When `active`, a training pass keeps x (a
/// view) and y instead of the saved state of Inner, at the cost of a second forward pass of Inner.
///
/// If a schedule separates the two halves of a backward pass, the recomputed activations are kept
/// until the second half, so recomputation does not reduce the peak of memory then.
template <class Inner>
struct recompute {
  using element = typename Inner::element;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return parallel::layer_of_whole_sequences<Inner>(division);
  }

  struct saved {
    typename Inner::saved inner;   ///< of the last forward pass: its views may be invalid
    matrix_view<element const> x;  ///< [rows, width]
  };

  Inner inner;
  bool active = false;

  recompute() = default;
  explicit recompute(Inner layer, bool is_active = false)
      : inner(std::move(layer)), active(is_active) {}

  /// The activations of Inner are in the context's scratch arena, which this pass releases.
  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& state,
                                             matrix_view<element const> summand = {}) const;

  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy, saved& state,
                                                    matrix_view<element const> summand = {}) const;
  /// See concepts.hpp.
  template <class Stream, class... Summand>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& state, Summand... summand) const;

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<element const> x) const requires
      requires(Inner const& layer) {
    layer.restore_input(state.inner, x);
  }
  { inner.restore_input(state.inner, x); }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const;

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }

 private:
  /// An inference pass keeps nothing in any case.
  template <class Stream>
  [[nodiscard]] bool drops(context<Stream> const& c) const {
    return active && c.mode == pass::training;
  }
};

// The definitions are outside the class, so that a program can compile the passes of its blocks
// once (extern template), which has no effect on inline functions.

template <class Inner>
template <class Stream>
auto recompute<Inner>::forward(context<Stream>& c, matrix_view<element const> x, saved& state,
                               matrix_view<element const> summand) const -> matrix_view<element> {
  if (!drops(c)) return forward_onto(inner, c, x, state.inner, summand);
  state.x = x;
  auto const y = c.template allocate<element, 2>(x.extents());
  auto temporary_context = c.with_memory(c.scratch == nullptr ? c.memory : *c.scratch);
  arena::scope const temporaries(temporary_context.memory);
  matrix_view<element const> const result =
      forward_onto(inner, temporary_context, x, state.inner, summand);
  require(result.extents() == x.extents(), "recompute: the layer turned [", x.extent(0), ", ",
          x.extent(1), "] into [", result.extent(0), ", ", result.extent(1),
          "]; it must leave the extents of its input");
  ops::copy(c.stream, y.span(), result.span());
  return y;
}

template <class Inner>
template <class Stream>
auto recompute<Inner>::backward_input(context<Stream>& c, matrix_view<element const> dy,
                                      saved& state, matrix_view<element const> summand) const
    -> matrix_view<element> {
  if (drops(c)) static_cast<void>(inner.forward(c, state.x, state.inner));
  return backward_input_onto(inner, c, dy, state.inner, summand);
}

template <class Inner>
template <class Stream, class... Summand>
void recompute<Inner>::backward_input_into(context<Stream>& c, matrix_view<element> dx,
                                           matrix_view<element const> dy, saved& state,
                                           Summand... summand) const {
  if (drops(c)) static_cast<void>(inner.forward(c, state.x, state.inner));
  parallel::backward_input_into(inner, c, dx, dy, state.inner, summand...);
}

template <class Inner>
template <class Stream>
void recompute<Inner>::backward_weight(context<Stream>& c, saved const& state) const {
  backward_weight_of(inner, c, state.inner);
}

}  // namespace parallel
