// shared_keys: the keys and values of one layer that later layers attend to instead of computing
// their own (cross-layer attention: Brandon et al., "Reducing Transformer Key-Value Cache Size with
// Cross-Layer Attention", 2024).
//
// They belong to one microbatch and live as long as its saved activations. The layer that computes
// them stores them here in its forward pass. In the backward pass, later layers run first: each
// adds its gradient here, and the layer that computed the keys takes the sum, including its own.
#pragma once

#include <utility>

#include <parallel/layer/context.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

template <class T>
struct shared_keys {
  matrix_view<T> rows;        ///< [R, K | V], as attention reads them: normalised and rotated
  matrix_view<T> gradient;    ///< [R, K | V]; empty in an inference pass
  bool has_gradient = false;  ///< whether a gradient has been added

  /// Allocates the keys and values of `count` rows, `width` elements a row for both together.
  template <class Stream>
  [[nodiscard]] static shared_keys allocate(context<Stream>& c, index count, index width) {
    shared_keys out;
    out.rows = c.template allocate<T, 2>({count, width});
    if (c.mode == pass::training) out.gradient = c.template allocate<T, 2>({count, width});
    return out;
  }

  template <class Stream>
  void store(context<Stream>& c, ops::rows_view<T const> keys) const {
    ops::copy(c.stream, ops::rows_view<T>(rows), keys);
  }

  template <class Stream>
  void add_gradient(context<Stream>& c, ops::rows_view<T const> addend) {
    if (!std::exchange(has_gradient, true))
      return ops::copy(c.stream, ops::rows_view<T>(gradient), addend);
    arena::scope const temporaries(c.memory);
    auto const contiguous = c.template allocate<T, 2>(gradient.extents());
    ops::copy(c.stream, ops::rows_view<T>(contiguous), addend);
    ops::add(c.stream, gradient.span(), contiguous.span());
  }
};

}  // namespace parallel
