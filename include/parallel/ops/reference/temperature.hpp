// temperature in plain loops.
#pragma once

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/temperature.hpp>

namespace parallel::reference {

template <class T>
void temperature_impl(stream&, ops::rows_view<T> y, ops::temperature_options options) {
  using A = accumulate_t<T>;
  for (index r = 0; r < y.rows; ++r) {
    auto const factor = static_cast<A>(ops::detail::temperature_of(options, r));
    for (index i = 0; i < y.columns; ++i)
      y.row(r)[i] = static_cast<T>(static_cast<A>(y.row(r)[i]) * factor);
  }
}

}  // namespace parallel::reference
