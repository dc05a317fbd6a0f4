// shared_keys: the keys and values of one layer that later layers attend to instead of making their
// own (cross-layer attention: Brandon et al., "Reducing Transformer Key-Value Cache Size with
// Cross-Layer Attention", 2024).
//
// They belong to a microbatch on its way through the layers, and last as long as what it keeps. The
// layer that makes them leaves them here in its forward pass. Backwards, later layers come first:
// each adds its gradient here, and the layer that made them takes the sum, its own included.
#pragma once

#include <utility>

#include <parallel/layer/context.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

template <class T>
struct shared_keys {
  matrix_view<T> rows;        // [R, K | V], as attention reads them: normalised and rotated
  matrix_view<T> gradient;    // [R, K | V]; none without a backward pass to come
  bool has_gradient = false;  // whether something has been added

  /// Room for the keys and values of `count` rows, of `width` elements together.
  template <class Stream>
  [[nodiscard]] static shared_keys allocate(context<Stream>& c, index count, index width) {
    shared_keys out;
    out.rows = c.template allocate<T, 2>({count, width});
    if (c.mode == pass::training) out.gradient = c.template allocate<T, 2>({count, width});
    return out;
  }

  template <class Stream>
  void keep(context<Stream>& c, ops::rows_view<T const> keys) const {
    ops::copy(c.stream, ops::rows_view<T>(rows), keys);
  }

  template <class Stream>
  void add_gradient(context<Stream>& c, ops::rows_view<T const> addend) {
    if (!std::exchange(has_gradient, true))
      return ops::copy(c.stream, ops::rows_view<T>(gradient), addend);
    arena::scope const temporaries(c.memory);
    auto const together = c.template allocate<T, 2>(gradient.extents());
    ops::copy(c.stream, ops::rows_view<T>(together), addend);
    ops::add(c.stream, gradient.span(), together.span());
  }
};

}  // namespace parallel
