// Activations and their gradients in plain loops. Φ is taken from erfc, which keeps its relative
// precision where Φ(x) is small, unlike 1 + erf.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/activation.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

namespace detail {

/// f(x) and f'(x).
template <class A>
struct activated {
  A value;
  A slope;
};

/// x σ(g), where g is a function of x with derivative dg.
template <class A>
[[nodiscard]] activated<A> gated(A x, A g, A dg) {
  A const share = A(1) / (A(1) + std::exp(-g));
  return {x * share, share + x * share * (A(1) - share) * dg};
}

template <class A>
[[nodiscard]] activated<A> activate(ops::activation_kind kind, A x) {
  using enum ops::activation_kind;
  switch (kind) {
    case gelu_tanh: {
      A const factor = A(2) * std::numbers::sqrt2_v<A> * std::numbers::inv_sqrtpi_v<A>;
      A const cubic = A(0.044715);
      return gated(x, factor * (x + cubic * x * x * x), factor * (A(1) + A(3) * cubic * x * x));
    }
    case quick_gelu: return gated(x, A(1.702) * x, A(1.702));
    case silu: return gated(x, x, A(1));
    case relu: return {x < A(0) ? A(0) : x, x > A(0) ? A(1) : A(0)};
    case gelu: break;
  }
  A const distribution = std::erfc(-x / std::numbers::sqrt2_v<A>) / A(2);
  A const density =
      std::exp(-x * x / A(2)) * std::numbers::inv_sqrtpi_v<A> / std::numbers::sqrt2_v<A>;
  return {x * distribution, distribution + x * density};
}

}  // namespace detail

template <class T>
void activation_impl(stream&, std::span<T> y, std::span<T const> x, ops::activation_kind kind) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<T>(detail::activate(kind, A(x[i])).value);
}

template <class T>
void activation_backward_impl(stream&, std::span<T> dx, std::span<T const> x, std::span<T const> dy,
                              ops::activation_kind kind) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] = static_cast<T>(A(dy[i]) * detail::activate(kind, A(x[i])).slope);
}

}  // namespace parallel::reference
