// recompute: a layer whose activations are not kept but made again for the backward pass (Chen,
// Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016). Around every block
// that is full recomputation; around parts of some blocks it is selective (Korthikanti et al.,
// "Reducing Activation Recomputation in Large Transformer Models", 2022).
//
// The second forward pass is the first again: the same operations in the same order from the same
// place, dropout's masks included since they are counted, so that gradients have the same bits.
// What the layer exchanges is exchanged again, on all ranks alike, its last sum too, whose result
// nobody needs a second time, so that what it was added to is not added again.
#pragma once

#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel {

/// Inner, whose result has the extents of its input. When `active`, a training pass keeps x (a
/// view) and y in place of what Inner keeps, at the cost of Inner's forward pass a second time.
///
/// Where the halves of a backward pass are apart, what the second needs of the first is kept until
/// then, and so is what is made again for it: such schedules save nothing at their peak.
template <class Inner>
struct recompute {
  using element = typename Inner::element;

  struct saved {
    typename Inner::saved inner;   // of the pass that was last: views of what may be gone
    matrix_view<element const> x;  // [rows, width]
  };

  Inner inner;
  bool active = false;

  recompute() = default;
  explicit recompute(Inner layer, bool is_active = false)
      : inner(std::move(layer)), active(is_active) {}

  /// What Inner makes lies in the context's scratch arena, and is released there.
  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& kept,
                                             matrix_view<element const> onto = {}) const;

  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy, saved& kept,
                                                    matrix_view<element const> onto = {}) const;
  /// See concepts.hpp.
  template <class Stream>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& kept) const;

  /// As of linear.
  void input_again(saved& kept, matrix_view<element const> x) const requires
      requires(Inner const& layer) {
    layer.input_again(kept.inner, x);
  }
  { inner.input_again(kept.inner, x); }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const;

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }

 private:
  /// Without a backward pass to come nothing is kept anyhow.
  template <class Stream>
  [[nodiscard]] bool drops(context<Stream> const& c) const {
    return active && c.mode == pass::training;
  }
};

// Outside the class, so that a program can have the passes of its blocks compiled once
// (extern template), which takes no effect on what is inline.

template <class Inner>
template <class Stream>
auto recompute<Inner>::forward(context<Stream>& c, matrix_view<element const> x, saved& kept,
                               matrix_view<element const> onto) const -> matrix_view<element> {
  if (!drops(c)) return forward_onto(inner, c, x, kept.inner, onto);
  kept.x = x;
  auto const y = c.template allocate<element, 2>(x.extents());
  auto passing = c.on(c.scratch == nullptr ? c.memory : *c.scratch);
  arena::scope const dropped(passing.memory);
  matrix_view<element const> const made = forward_onto(inner, passing, x, kept.inner, onto);
  require(made.extents() == x.extents(), "recompute: the layer turned [", x.extent(0), ", ",
          x.extent(1), "] into [", made.extent(0), ", ", made.extent(1),
          "]; it must leave the extents of its input");
  ops::copy(c.stream, y.span(), made.span());
  return y;
}

template <class Inner>
template <class Stream>
auto recompute<Inner>::backward_input(context<Stream>& c, matrix_view<element const> dy,
                                      saved& kept, matrix_view<element const> onto) const
    -> matrix_view<element> {
  if (drops(c)) static_cast<void>(inner.forward(c, kept.x, kept.inner));
  return backward_input_onto(inner, c, dy, kept.inner, onto);
}

template <class Inner>
template <class Stream>
void recompute<Inner>::backward_input_into(context<Stream>& c, matrix_view<element> dx,
                                           matrix_view<element const> dy, saved& kept) const {
  if (drops(c)) static_cast<void>(inner.forward(c, kept.x, kept.inner));
  parallel::backward_input_into(inner, c, dx, dy, kept.inner);
}

template <class Inner>
template <class Stream>
void recompute<Inner>::backward_weight(context<Stream>& c, saved const& kept) const {
  backward_weight_of(inner, c, kept.inner);
}

}  // namespace parallel
