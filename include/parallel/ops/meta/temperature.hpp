// temperature on the meta device: one operation an element.
#pragma once

#include <cstdint>

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/temperature.hpp>

namespace parallel::meta {

template <class T>
void temperature_impl(stream& s, ops::rows_view<T> y, ops::temperature_options) {
  s.touch(updates(y));
  s.count(static_cast<std::uint64_t>(y.rows * y.columns));
}

}  // namespace parallel::meta
