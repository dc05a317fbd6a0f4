// temperature on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/attention/temperature.hpp>
#include <parallel/ops/host/blocks.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::temperature_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, a.y.rows, a.y.columns, [=](auto lanes, index r) __attribute__((always_inline)) {
            auto const factor =
                broadcast<lanes>(static_cast<float>(ops::detail::row_factor(a.options, r)));
            T* const row = a.y.row(r);
            for (index i = 0; i < a.y.columns; i += lanes) {
              auto const product = simd::load_partial<lanes>(row + i, a.y.columns - i) * factor;
              simd::store_partial(row + i, product, a.y.columns - i);
            }
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
