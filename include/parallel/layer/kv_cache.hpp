// The keys and values of all tokens up to now, for one block and one sequence (generation).
#pragma once

#include <parallel/ops/attention/head_layout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

template <class T>
struct kv_cache {
  matrix_view<T> rows;  ///< [capacity, K | V]
  index length = 0;     ///< rows in use

  /// Appends the keys and values of packed rows.
  template <class Stream>
  void append(Stream& s, ops::head_layout const& layout, matrix_view<T const> packed) {
    index const end = length + packed.extent(0);
    require(end <= rows.extent(0), "the KV cache holds ", rows.extent(0), " tokens, but ", end,
            " are needed");
    ops::copy(s, ops::rows_view<T>(rows.slice(length, end)), layout.kv(packed));
    length = end;
  }

  [[nodiscard]] ops::heads_view<T const> keys(ops::head_layout const& layout) const {
    return layout.split(used_rows().slice_columns(0, layout.kv_width()), length);
  }
  [[nodiscard]] ops::heads_view<T const> values(ops::head_layout const& layout) const {
    return layout.split(used_rows().slice_columns(layout.kv_width(), 2 * layout.kv_width()),
                        length);
  }

 private:
  [[nodiscard]] ops::rows_view<T const> used_rows() const {
    return matrix_view<T const>(rows.slice(0, length));
  }
};

}  // namespace parallel
