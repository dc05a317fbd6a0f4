// add_bias and its gradient on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/bias.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/bias.hpp>

namespace parallel::host {

template <class T>
void add_bias_impl(stream& s, matrix_view<T> y, vector_view<T const> bias,
                   matrix_view<T const> addend) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = y.extent(1);
      for_rows(
          threads, y.extent(0), columns,
          [ =, to = y.data(), from = bias.data(), more = addend.empty() ? nullptr : addend.data() ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const begin = m * columns;
            if (more == nullptr) return add_packs<L>(to + begin, from, columns);
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              simd::store_partial(to + begin + i,
                                  simd::load_partial<L>(to + begin + i, left) +
                                      simd::load_partial<L>(from + i, left) +
                                      simd::load_partial<L>(more + begin + i, left),
                                  left);
            }
          });
    } else {
      reference::stream here;
      ops::add_bias(here, y, bias, addend);
    }
  });
}

template <class T>
void add_bias_backward_impl(stream& s, vector_view<accumulate_t<T>> dbias,
                            matrix_view<T const> dy) {
  s.enqueue([=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = dy.extent(1);
      auto const sums = sum_rows(
          s.memory(), threads, dy.extent(0), columns,
          [ =, from = dy.data() ](auto lanes, index m, float* to) __attribute__((always_inline)) {
            add_packs<lanes>(to, from + m * columns, columns);
          });
      for (index n = 0; n < columns; ++n) dbias.data()[n] += sums[n];
    } else {
      reference::stream here;
      ops::add_bias_backward(here, dbias, dy);
    }
  });
}

}  // namespace parallel::host
