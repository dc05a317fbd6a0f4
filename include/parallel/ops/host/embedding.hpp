// Embeddings and their gradients on the host. Gradients of tokens are parallel over columns and
// those of positions over positions: each sum is taken by one thread in the order of rows.
#pragma once

#include <algorithm>
#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/embedding.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/embedding.hpp>

namespace parallel::host {

template <class T>
void embedding_impl(stream& s, matrix_view<T> y, vector_view<std::int32_t const> ids,
                    matrix_view<T const> table, ops::table_slice slice) {
  s.enqueue([=, threads = s.threads()] {
    ops::detail::check_ids(ids, table.extent(0), slice);
    index const columns = y.extent(1);
    parallel_for(threads, y.extent(0), block_rows(columns), [&](index begin, index end) {
      for (index m = begin; m < end; ++m) {
        index const row = slice.row_of(ids.data()[m], table.extent(0));
        if (row < 0)
          std::fill_n(y.data() + m * columns, columns, T{});
        else
          std::memcpy(static_cast<void*>(y.data() + m * columns), table.data() + row * columns,
                      static_cast<std::size_t>(columns) * sizeof(T));
      }
    });
  });
}

template <class T>
void embedding_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                             matrix_view<T const> dy, vector_view<std::int32_t const> ids,
                             ops::table_slice slice) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::check_ids(ids, dtable.extent(0), slice);
      index const columns = dy.extent(1);
      index const share = (columns + threads - 1) / threads;
      index const grain = std::max<index>(16, (share + 15) / 16 * 16);  // lines of cache unshared
      parallel_for(threads, columns, grain,
                   [&](index begin, index end) {
                     simd::dispatch([&, to = dtable.data() + begin, from = dy.data() + begin, rows = ids.data()](
                           auto lanes) __attribute__((always_inline)) {
          for (index m = 0; m < dy.extent(0); ++m)
            if (index const row = slice.row_of(rows[m], dtable.extent(0)); row >= 0)
              add_packs<lanes>(to + row * columns, from + m * columns, end - begin);
        });
                   });
    } else {
      reference::stream here;
      ops::embedding_backward(here, dtable, dy, ids, slice);
    }
  });
}

template <class T>
void add_positions_impl(stream& s, matrix_view<T> y, matrix_view<T const> table, index sequence,
                        ops::position_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = y.extent(1);
      for_rows(
          threads, y.extent(0), columns,
          [ =, to = y.data(), from = table.data() + options.first * columns ](auto lanes, index m)
              __attribute__((always_inline)) {
                add_packs<lanes>(to + m * columns, from + m % sequence * columns, columns);
              });
    } else {
      reference::stream here;
      ops::add_positions(here, y, table, sequence, options);
    }
  });
}

template <class T>
void add_positions_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                                 matrix_view<T const> dy, index sequence,
                                 ops::position_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = dy.extent(1);
      index const rows = dy.extent(0);
      for_rows(
          threads, sequence, rows / sequence * columns,
          [ =, to = dtable.data() + options.first * columns, from = dy.data() ](
              auto lanes, index at) __attribute__((always_inline)) {
            for (index m = at; m < rows; m += sequence)
              add_packs<lanes>(to + at * columns, from + m * columns, columns);
          });
    } else {
      reference::stream here;
      ops::add_positions_backward(here, dtable, dy, sequence, options);
    }
  });
}

}  // namespace parallel::host
