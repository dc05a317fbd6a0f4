// The norms of queries and keys: over all heads together (qk_ln), or over each head alone with
// shared weights (qk_gn).
#pragma once

#include <vector>

#include <parallel/layer/norm.hpp>
#include <parallel/ops/attention/head_layout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// Without weights it normalises and keeps nothing; otherwise it keeps one copy of the packed rows
/// and the saved state of each norm.
template <class T>
struct query_key_norm {
  /// "q_ln", "k_ln": as wide as one group of columns that is normalised together; k is absent where
  /// rows have no keys
  norm<T> q, k;

  struct saved {
    std::vector<typename norm<T>::saved> q, k;  ///< one for each group of columns
  };

  [[nodiscard]] bool is_present() const { return q.weight.is_present(); }

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, ops::head_layout const& layout,
                                       matrix_view<T> packed, saved& state) const {
    if (!is_present()) return packed;
    matrix_view<T const> const x = packed;
    auto const y = c.template allocate<T, 2>(packed.extents());
    ops::copy(c.stream, y.span(), x.span());
    auto const normalise = [&](norm<T> const& layer, auto destination, auto source, auto& groups) {
      if (!layer.weight.is_present()) return;
      groups.resize(static_cast<std::size_t>(destination.columns / layer.weight.extents[0]));
      for (std::size_t g = 0; g < groups.size(); ++g)
        layer.forward_into(c, group(layer, destination, g), group(layer, source, g), groups[g]);
    };
    normalise(q, layout.q(y), layout.q(x), state.q);
    normalise(k, layout.k(y), layout.k(x), state.k);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, ops::head_layout const& layout,
                                              matrix_view<T> d_packed, saved& state) const {
    if (!is_present()) return d_packed;
    matrix_view<T const> const dy = d_packed;
    auto const dx = c.template allocate<T, 2>(d_packed.extents());
    ops::copy(c.stream, dx.span(), dy.span());
    auto const backward = [&](norm<T> const& layer, auto destination, auto source, auto& groups) {
      for (std::size_t g = 0; g < groups.size(); ++g)
        layer.backward_input_into(c, group(layer, destination, g), group(layer, source, g),
                                  groups[g]);
    };
    backward(q, layout.q(dx), layout.q(dy), state.q);
    backward(k, layout.k(dx), layout.k(dy), state.k);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    for (auto const& group_state : state.q) q.backward_weight(c, group_state);
    for (auto const& group_state : state.k) k.backward_weight(c, group_state);
  }

  void visit_parameters(auto&& visit) {
    if (!is_present()) return;
    visit_parameters_of(q, visit);
    if (k.weight.is_present()) visit_parameters_of(k, visit);
  }

 private:
  /// The g-th group of columns that are normalised together.
  template <class U>
  [[nodiscard]] static ops::rows_view<U> group(norm<T> const& layer, ops::rows_view<U> rows,
                                               std::size_t g) {
    index const width = layer.weight.extents[0];
    index const begin = static_cast<index>(g) * width;
    return rows.slice_columns(begin, begin + width);
  }
};

}  // namespace parallel
