// Activations, element by element, and their gradients. With Φ and φ the standard normal
// distribution and its density, and σ(g) = 1/(1 + exp(-g)):
//
//   gelu        x Φ(x)                                  (Hendrycks, Gimpel, 2016)
//   gelu_tanh   x σ(2 √(2/π) (x + 0.044715 x³))         the same paper; equal to its form with tanh
//   quick_gelu  x σ(1.702 x)                            the same paper, equation 3
//   silu        x σ(x)                                  (Elfwing, Uchibe, Doya, 2017)
//   relu        max(x, 0), with slope 0 at 0
//
// T is float, bf16 or double; arithmetic in accumulate_t<T>, rounded once. Cost: memory bandwidth,
// some 30 instructions an element (gelu's exact Φ the most).
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

enum class activation_kind : std::uint8_t { gelu, gelu_tanh, quick_gelu, silu, relu };

/// Calls f(std::integral_constant<activation_kind, kind>{}): one branch for a whole array.
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

struct activation_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x,
                  activation_kind kind) const {
    detail::same("activation", "the size of y", y.size(), "that of x", x.size());
    activation_impl(s, y, x, kind);
  }
};
/// activation(s, y, x, kind): y[i] = f(x[i]); y may be x.
inline constexpr activation_fn activation{};

struct activation_backward_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> dx, std::span<std::type_identity_t<T> const> x,
                  std::span<std::type_identity_t<T> const> dy, activation_kind kind) const {
    detail::same("activation_backward", "the size of dx", dx.size(), "that of x", x.size());
    detail::same("activation_backward", "the size of dx", dx.size(), "that of dy", dy.size());
    activation_backward_impl(s, dx, x, dy, kind);
  }
};
/// activation_backward(s, dx, x, dy, kind): dx[i] = dy[i] f'(x[i]); dx may be dy or x.
inline constexpr activation_backward_fn activation_backward{};

}  // namespace parallel::ops
