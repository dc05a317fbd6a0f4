// Activations, applied element by element, and their gradients. Φ and φ are the standard normal
// distribution and its density, and σ(g) = 1/(1 + exp(-g)):
//
//   gelu        x Φ(x)                                  (Hendrycks, Gimpel, 2016)
//   gelu_tanh   x σ(2 √(2/π) (x + 0.044715 x³))         the same paper; equal to its form with tanh
//   quick_gelu  x σ(1.702 x)                            the same paper, equation 3
//   silu        x σ(x)                                  (Elfwing, Uchibe, Doya, 2017)
//   relu        max(x, 0), with slope 0 at 0
//
// T is float, bf16 or double; arithmetic is in accumulate_t<T>, and the result is rounded once.
// Cost: memory bandwidth, and about 30 instructions an element (the exact Φ of gelu takes the
// most).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::ops {

/// The functions in the table above.
enum class activation_kind : std::uint8_t { gelu, gelu_tanh, quick_gelu, silu, relu };

/// Calls f(std::integral_constant<activation_kind, kind>{}), so that one branch serves a whole
/// array.
template <class F>
void visit_activation(activation_kind kind, F&& f) {
  using enum activation_kind;
  switch (kind) {
    case gelu: return f(std::integral_constant<activation_kind, gelu>{});
    case gelu_tanh: return f(std::integral_constant<activation_kind, gelu_tanh>{});
    case quick_gelu: return f(std::integral_constant<activation_kind, quick_gelu>{});
    case silu: return f(std::integral_constant<activation_kind, silu>{});
    case relu: return f(std::integral_constant<activation_kind, relu>{});
  }
}

namespace detail {

/// Operations per element, forward and backward (the product with dy included).
struct activation_cost {
  std::size_t forward;
  std::size_t backward;
};
[[nodiscard]] constexpr activation_cost cost_of(activation_kind kind) {
  using enum activation_kind;
  switch (kind) {
    case gelu_tanh: return {8, 14};
    case quick_gelu: return {5, 10};
    case silu: return {4, 8};
    case relu: return {1, 1};
    case gelu: break;
  }
  return {5, 10};
}

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
[[nodiscard]] activated<A> activate(activation_kind kind, A x) {
  using enum activation_kind;
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

/// f(x), the function of `activation`.
struct activated_value : detail::pointwise_function<false> {
  static constexpr char const* name = "activation";
  activation_kind kind;

  explicit activated_value(activation_kind chosen) : kind(chosen) {}
  [[nodiscard]] std::uint64_t flops() const { return detail::cost_of(kind).forward; }
  template <class A>
  A operator()(A x) const {
    return detail::activate(kind, x).value;
  }
};
template <class T>
using activation_arguments = pointwise_arguments<activated_value, T, T>;
/// activation(s, y, x, kind): y[i] = f(x[i]); y may be x.
inline constexpr auto activation =
    []<class Stream, writable T>(Stream& s, std::span<T> y,
                                 std::span<std::type_identity_t<T> const> x, activation_kind kind) {
      detail::run_pointwise(s, activated_value(kind), y, x);
    };

/// dy f'(x), the function of `activation_backward`.
struct activation_gradient : activated_value {
  static constexpr char const *name = "activation_backward",
                              *sizes[] = {"the size of dx", "that of x", "that of dy"};

  using activated_value::activated_value;
  [[nodiscard]] std::uint64_t flops() const { return detail::cost_of(kind).backward; }
  template <class A>
  A operator()(A x, A dy) const {
    return dy * detail::activate(kind, x).slope;
  }
};
template <class T>
using activation_backward_arguments = pointwise_arguments<activation_gradient, T, T, T>;
/// activation_backward(s, dx, x, dy, kind): dx[i] = dy[i] f'(x[i]); dx may be dy or x.
inline constexpr auto activation_backward =
    []<class Stream, writable T>(
        Stream& s, std::span<T> dx, std::span<std::type_identity_t<T> const> x,
        std::span<std::type_identity_t<T> const> dy,
        activation_kind kind) { detail::run_pointwise(s, activation_gradient(kind), dx, x, dy); };

}  // namespace parallel::ops
