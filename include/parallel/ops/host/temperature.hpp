// temperature on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/temperature.hpp>
#include <parallel/ops/temperature.hpp>

namespace parallel::host {

template <class T>
void temperature_impl(stream& s, ops::rows_view<T> y, ops::temperature_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, y.rows, y.columns, [=](auto lanes, index r) __attribute__((always_inline)) {
            auto const factor =
                broadcast<lanes>(static_cast<float>(ops::detail::temperature_of(options, r)));
            T* const row = y.row(r);
            for (index i = 0; i < y.columns; i += lanes) {
              auto const product = simd::load_partial<lanes>(row + i, y.columns - i) * factor;
              simd::store_partial(row + i, product, y.columns - i);
            }
          });
    } else {
      reference::stream here;
      reference::temperature_impl(here, y, options);
    }
  });
}

}  // namespace parallel::host
