// Embeddings on the meta device: a look-up computes nothing, sums are one operation an element.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel::meta {

template <class T>
void embedding_impl(stream& s, matrix_view<T> y, vector_view<std::int32_t const>,
                    matrix_view<T const> table, ops::table_slice) {
  s.touch(y, table);
}

template <class T>
void embedding_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                             matrix_view<T const> dy, vector_view<std::int32_t const>,
                             ops::table_slice) {
  s.touch(updates(dtable), dy);
  s.count(static_cast<std::uint64_t>(dy.size()));
}

template <class T>
void add_positions_impl(stream& s, matrix_view<T> y, matrix_view<T const> table, index,
                        ops::position_options) {
  s.touch(updates(y), table);
  s.count(static_cast<std::uint64_t>(y.size()));
}

template <class T>
void add_positions_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                                 matrix_view<T const> dy, index, ops::position_options) {
  s.touch(updates(dtable), dy);
  s.count(static_cast<std::uint64_t>(dy.size()));
}

}  // namespace parallel::meta
