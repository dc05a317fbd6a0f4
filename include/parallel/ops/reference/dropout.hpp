// dropout in a plain loop.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/dropout.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void dropout_impl(stream&, std::span<T> y, std::span<T const> x, ops::dropout_options options) {
  using A = accumulate_t<T>;
  float const p = options.probability;
  A const factor = p < 1.0F ? A(1) / (A(1) - A(p)) : A(0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    bool const kept = options.random.uniform(options.first_element + i) >= p;
    y[i] = static_cast<T>(kept ? A(x[i]) * factor : A(0));
  }
}

}  // namespace parallel::reference
