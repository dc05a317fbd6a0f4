// gelu(x) = x Φ(x) = x/2 (1 + erf(x/√2)), the exact form (Hendrycks, Gimpel, 2016), and its
// gradient dx = dy (Φ(x) + x φ(x)). T is float, bf16 or double. Cost: about 30 operations an
// element.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

struct gelu_fn {
  template <class Stream, class T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::same("gelu", "the size of y", y.size(), "that of x", x.size());
    gelu_impl(s, y, x);
  }
};
/// gelu(s, y, x): y[i] = x[i] Φ(x[i]); y may be x.
inline constexpr gelu_fn gelu{};

struct gelu_backward_fn {
  template <class Stream, class T>
  void operator()(Stream& s, std::span<T> dx, std::span<std::type_identity_t<T> const> x,
                  std::span<std::type_identity_t<T> const> dy) const {
    detail::same("gelu_backward", "the size of dx", dx.size(), "that of x", x.size());
    detail::same("gelu_backward", "the size of dx", dx.size(), "that of dy", dy.size());
    gelu_backward_impl(s, dx, x, dy);
  }
};
/// gelu_backward(s, dx, x, dy): dx[i] = dy[i] (Φ(x[i]) + x[i] φ(x[i])); dx may be dy or x.
inline constexpr gelu_backward_fn gelu_backward{};

}  // namespace parallel::ops
