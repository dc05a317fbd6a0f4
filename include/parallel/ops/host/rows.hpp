// Operations by row on the host. A thread processes whole rows, so no two threads add to one sum;
// squares are summed in 16 accumulators of double on every instruction set.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/reduce.hpp>
#include <parallel/ops/rows.hpp>

namespace parallel::host {

namespace detail {

/// Calls `row(lanes, r, begin, end)` for every row r that overlaps a range of `size` elements; the
/// row's elements are [begin, end) of the range.
template <class Row>
void for_row_parts(int threads, index size, ops::rows_location const& location, Row const& row) {
  if (size == 0) return;
  index const first = location.row_of(0);
  index const count = location.row_of(size - 1) + 1 - first;
  for_rows(
      threads, count, location.width, [=](auto lanes, index k) __attribute__((always_inline)) {
        index const begin = std::max<index>(0, (first + k) * location.width - location.first);
        row(lanes, first + k, begin, location.end_of_row(begin, size));
      });
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::row_squared_norms_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      detail::for_row_parts(
          threads, std::ssize(a.x), a.location,
          [ sums = a.out.data(), from = a.x.data() ](auto lanes, index r, index begin, index end)
              __attribute__((always_inline)) {
                sums[r] += detail::sum_block<lanes>(
                    from + begin, end - begin,
                    [](auto const& v) __attribute__((always_inline)) { return v * v; });
              });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::scale_rows_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      detail::for_row_parts(
          threads, std::ssize(a.x), a.location,
          [ data = a.x.data(), row_factors = a.factors.data() ](
              auto lanes, index r, index begin, index end) __attribute__((always_inline)) {
            constexpr int L = lanes;
            auto const factor = broadcast<L>(row_factors[r]);
            for (index i = begin; i < end; i += L)
              simd::store_partial(data + i, simd::load_partial<L>(data + i, end - i) * factor,
                                  end - i);
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
