// clip and its gradient in plain loops.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void clip_impl(stream&, std::span<T> x, std::span<std::uint8_t> inside, accumulate_t<T> limit) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const value = A(x[i]);
    if (!inside.empty()) inside[i] = std::abs(value) <= limit ? 1 : 0;
    if (value > limit) x[i] = static_cast<T>(limit);
    if (value < -limit) x[i] = static_cast<T>(-limit);
  }
}

template <class T>
void clip_backward_impl(stream&, std::span<T> dx, std::span<std::uint8_t const> inside) {
  for (std::size_t i = 0; i < dx.size(); ++i)
    if (inside[i] == 0) dx[i] = T{};
}

}  // namespace parallel::reference
