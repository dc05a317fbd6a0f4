// head_layout: the columns of queries, keys and values in packed rows [Q | K | V], one head after
// another.
#pragma once

#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

/// `heads` query heads and `kv_heads` heads of keys and of values, each `dim` wide.
struct head_layout {
  index heads = 1;
  index kv_heads = 1;
  index dim = 1;

  [[nodiscard]] index width() const { return heads * dim; }        // of Q
  [[nodiscard]] index kv_width() const { return kv_heads * dim; }  // of K, of V
  [[nodiscard]] index row() const { return width() + 2 * kv_width(); }

  template <class T>
  [[nodiscard]] rows_view<T> q(matrix_view<T> packed) const {
    return rows_view<T>(packed).slice_columns(0, width());
  }
  template <class T>
  [[nodiscard]] rows_view<T> k(matrix_view<T> packed) const {
    return rows_view<T>(packed).slice_columns(width(), width() + kv_width());
  }
  template <class T>
  [[nodiscard]] rows_view<T> v(matrix_view<T> packed) const {
    return rows_view<T>(packed).slice_columns(width() + kv_width(), row());
  }
  /// Q and K together, or K and V together: they are adjacent.
  template <class T>
  [[nodiscard]] rows_view<T> qk(matrix_view<T> packed) const {
    return rows_view<T>(packed).slice_columns(0, width() + kv_width());
  }
  template <class T>
  [[nodiscard]] rows_view<T> kv(matrix_view<T> packed) const {
    return rows_view<T>(packed).slice_columns(width(), row());
  }

  /// Rows of complete sequences, each of `sequence` rows, as [B, S, heads, dim].
  template <class T>
  [[nodiscard]] heads_view<T> split(rows_view<T> rows, index sequence) const {
    return {.data = rows.data,
            .batch = rows.rows / sequence,
            .sequence = sequence,
            .heads = rows.columns / dim,
            .head_dim = dim,
            .batch_stride = sequence * rows.row_stride,
            .row_stride = rows.row_stride};
  }
};

}  // namespace parallel::ops
