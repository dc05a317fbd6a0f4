// Embeddings and their gradients in plain loops.
#pragma once

#include <parallel/ops/embedding.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void embedding_impl(stream&, matrix_view<T> y, vector_view<std::int32_t const> ids,
                    matrix_view<T const> table, ops::table_slice slice) {
  ops::detail::check_ids(ids, table.extent(0), slice);
  for (index m = 0; m < y.extent(0); ++m) {
    index const row = slice.row_of(ids(m), table.extent(0));
    for (index n = 0; n < y.extent(1); ++n) y(m, n) = row < 0 ? T{} : table(row, n);
  }
}

template <class T>
void embedding_backward_impl(stream&, matrix_view<accumulate_t<T>> dtable, matrix_view<T const> dy,
                             vector_view<std::int32_t const> ids, ops::table_slice slice) {
  using A = accumulate_t<T>;
  ops::detail::check_ids(ids, dtable.extent(0), slice);
  for (index m = 0; m < dy.extent(0); ++m)
    if (index const row = slice.row_of(ids(m), dtable.extent(0)); row >= 0)
      for (index n = 0; n < dy.extent(1); ++n) dtable(row, n) += A(dy(m, n));
}

template <class T>
void add_positions_impl(stream&, matrix_view<T> y, matrix_view<T const> table, index sequence,
                        ops::position_options options) {
  using A = accumulate_t<T>;
  for (index m = 0; m < y.extent(0); ++m)
    for (index n = 0; n < y.extent(1); ++n)
      y(m, n) = static_cast<T>(A(y(m, n)) + A(table(options.first + m % sequence, n)));
}

template <class T>
void add_positions_backward_impl(stream&, matrix_view<accumulate_t<T>> dtable,
                                 matrix_view<T const> dy, index sequence,
                                 ops::position_options options) {
  using A = accumulate_t<T>;
  for (index m = 0; m < dy.extent(0); ++m)
    for (index n = 0; n < dy.extent(1); ++n) dtable(options.first + m % sequence, n) += A(dy(m, n));
}

}  // namespace parallel::reference
