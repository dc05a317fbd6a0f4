// Embeddings and their gradients on the host. Gradients of tokens are parallel over columns, those
// of positions over positions: one thread computes each sum, in the order of rows.
#pragma once

#include <algorithm>
#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/embedding.hpp>
#include <parallel/ops/host/blocks.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::embedding_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    ops::detail::check_ids(a.ids, a.table.extent(0), a.slice);
    index const columns = a.y.extent(1);
    parallel_for(threads, a.y.extent(0), block_rows(columns), [&](index begin, index end) {
      for (index m = begin; m < end; ++m) {
        index const row = a.slice.row_of(a.ids.data()[m], a.table.extent(0));
        if (row < 0)
          std::fill_n(a.y.data() + m * columns, columns, T{});
        else
          std::memcpy(static_cast<void*>(a.y.data() + m * columns), a.table.data() + row * columns,
                      static_cast<std::size_t>(columns) * sizeof(T));
      }
    });
  });
}

template <class T>
void run_operation(stream& s, ops::embedding_backward_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::check_ids(a.ids, a.dtable.extent(0), a.slice);
      index const columns = a.dy.extent(1);
      index const share = (columns + threads - 1) / threads;
      index const grain = std::max<index>(16, (share + 15) / 16 * 16);  // no shared cache lines
      parallel_for(threads, columns, grain,
                   [&](index begin, index end) {
                     simd::dispatch([&, to = a.dtable.data() + begin, from = a.dy.data() + begin, rows = a.ids.data()](
                           auto lanes) __attribute__((always_inline)) {
          for (index m = 0; m < a.dy.extent(0); ++m)
            if (index const row = a.slice.row_of(rows[m], a.dtable.extent(0)); row >= 0)
              add_packs<lanes>(to + row * columns, from + m * columns, end - begin);
        });
                   });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::add_positions_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.y.extent(1);
      for_rows(
          threads, a.y.extent(0), columns,
          [ =, to = a.y.data(), from = a.table.data() + a.options.first *
            columns ](auto lanes, index m) __attribute__((always_inline)) {
            add_packs<lanes>(to + m * columns, from + m % a.sequence * columns, columns);
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::add_positions_backward_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.dy.extent(1);
      index const rows = a.dy.extent(0);
      for_rows(
          threads, a.sequence, rows / a.sequence * columns,
          [ =, to = a.dtable.data() + a.options.first * columns, from = a.dy.data() ](
              auto lanes, index position) __attribute__((always_inline)) {
            for (index m = position; m < rows; m += a.sequence)
              add_packs<lanes>(to + position * columns, from + m * columns, columns);
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
