// The norms of queries and keys: over all heads together (qk_ln), or each head alone with shared
// weights (qk_gn).
#pragma once

#include <vector>

#include <parallel/layer/norm.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/head_layout.hpp>

namespace parallel {

/// Without weights nothing is normalised and nothing kept; else one copy of the packed rows and
/// what each norm keeps.
template <class T>
struct query_key_norm {
  // "q_ln", "k_ln": as wide as what is normalised at once; k is absent where rows have no keys
  norm<T> q, k;

  struct saved {
    std::vector<typename norm<T>::saved> q, k;  // of each group of columns normalised at once
  };

  [[nodiscard]] bool present() const { return q.weight.present(); }

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, ops::head_layout const& layout,
                                       matrix_view<T> packed, saved& kept) const {
    if (!present()) return packed;
    matrix_view<T const> const x = packed;
    auto const y = c.template allocate<T, 2>(packed.extents());
    ops::copy(c.stream, y.span(), x.span());
    auto const normalise = [&](norm<T> const& by, auto to, auto from, auto& groups) {
      if (!by.weight.present()) return;
      groups.resize(static_cast<std::size_t>(to.columns / by.weight.extents[0]));
      for (std::size_t g = 0; g < groups.size(); ++g)
        by.forward_into(c, group(by, to, g), group(by, from, g), groups[g]);
    };
    normalise(q, layout.q(y), layout.q(x), kept.q);
    normalise(k, layout.k(y), layout.k(x), kept.k);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, ops::head_layout const& layout,
                                              matrix_view<T> d_packed, saved& kept) const {
    if (!present()) return d_packed;
    matrix_view<T const> const dy = d_packed;
    auto const dx = c.template allocate<T, 2>(d_packed.extents());
    ops::copy(c.stream, dx.span(), dy.span());
    auto const backward = [&](norm<T> const& by, auto to, auto from, auto& groups) {
      for (std::size_t g = 0; g < groups.size(); ++g)
        by.backward_input_into(c, group(by, to, g), group(by, from, g), groups[g]);
    };
    backward(q, layout.q(dx), layout.q(dy), kept.q);
    backward(k, layout.k(dx), layout.k(dy), kept.k);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    for (auto const& one : kept.q) q.backward_weight(c, one);
    for (auto const& one : kept.k) k.backward_weight(c, one);
  }

  void visit_parameters(auto&& visit) {
    if (!present()) return;
    visit_parameters_of(q, visit);
    if (k.weight.present()) visit_parameters_of(k, visit);
  }

 private:
  /// The columns that are normalised together, number g of them.
  template <class U>
  [[nodiscard]] static ops::rows_view<U> group(norm<T> const& by, ops::rows_view<U> rows,
                                               std::size_t g) {
    index const width = by.weight.extents[0];
    index const begin = static_cast<index>(g) * width;
    return rows.slice_columns(begin, begin + width);
  }
};

}  // namespace parallel
