// gelu and its gradient in plain loops. Φ is taken from erfc, which keeps its relative precision
// where Φ(x) is small, unlike 1 + erf.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/gelu.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

namespace detail {

/// Φ(x), the distribution function of the standard normal distribution.
template <class A>
[[nodiscard]] A normal_distribution(A x) {
  return std::erfc(-x / std::numbers::sqrt2_v<A>) / A(2);
}

/// φ(x), its density.
template <class A>
[[nodiscard]] A normal_density(A x) {
  return std::exp(-x * x / A(2)) * std::numbers::inv_sqrtpi_v<A> / std::numbers::sqrt2_v<A>;
}

}  // namespace detail

template <class T>
void gelu_impl(stream&, std::span<T> y, std::span<T const> x) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < y.size(); ++i) {
    auto const value = A(x[i]);
    y[i] = static_cast<T>(value * detail::normal_distribution(value));
  }
}

template <class T>
void gelu_backward_impl(stream&, std::span<T> dx, std::span<T const> x, std::span<T const> dy) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    auto const value = A(x[i]);
    A const slope = detail::normal_distribution(value) + value * detail::normal_density(value);
    dx[i] = static_cast<T>(A(dy[i]) * slope);
  }
}

}  // namespace parallel::reference
