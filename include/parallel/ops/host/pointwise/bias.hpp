// add_bias and its gradient on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/pointwise/bias.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::add_bias_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.y.extent(1);
      for_rows(
          threads, a.y.extent(0), columns, [
            =, to = a.y.data(), from = a.bias.data(),
            addend = a.addend.empty() ? nullptr : a.addend.data()
          ](auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const begin = m * columns;
            if (addend == nullptr) return add_packs<L>(to + begin, from, columns);
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              simd::store_partial(to + begin + i,
                                  simd::load_partial<L>(to + begin + i, left) +
                                      simd::load_partial<L>(from + i, left) +
                                      simd::load_partial<L>(addend + begin + i, left),
                                  left);
            }
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::add_bias_backward_arguments<T> const& a) {
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.dy.extent(1);
      auto const sums = sum_rows(
          s.memory(), threads, a.dy.extent(0), columns,
          [ =, from = a.dy.data() ](auto lanes, index m, float* to) __attribute__((always_inline)) {
            add_packs<lanes>(to, from + m * columns, columns);
          });
      for (index n = 0; n < columns; ++n) a.dbias.data()[n] += sums[n];
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
