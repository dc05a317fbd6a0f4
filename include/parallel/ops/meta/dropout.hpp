// dropout on the meta device: one multiplication an element; random numbers are integers.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/dropout.hpp>

namespace parallel::meta {

template <class T>
void dropout_impl(stream& s, std::span<T> y, std::span<T const> x, ops::dropout_options options) {
  s.touch(y, x);
  if (options.probability > 0.0F) s.count(y.size());
}

}  // namespace parallel::meta
