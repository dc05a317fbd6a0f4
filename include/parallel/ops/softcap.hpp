// softcap: y = cap tanh(scale x / cap), which keeps logits within ±cap (Gemma 2, 2024, section 2),
// and its gradient. x, y are accumulate_t<T> (float or double); the gradient is T, of which bf16's
// is float. Cost: one pass.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

struct softcap_options {
  double cap = 1.0;    // above 0
  double scale = 1.0;  // of x, before
};

struct softcap_fn {
  template <class Stream, writable A>
  void operator()(Stream& s, std::span<A> y, std::span<std::type_identity_t<A> const> x,
                  softcap_options options) const {
    detail::same("softcap", "the size of y", y.size(), "that of x", x.size());
    softcap_impl(s, y, x, options);
  }
};
/// softcap(s, y, x, {.cap, .scale}): y[i] = cap tanh(scale x[i] / cap); y may be x.
inline constexpr softcap_fn softcap{};

struct softcap_backward_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                  std::span<std::type_identity_t<T> const> dy, softcap_options options) const {
    detail::same("softcap_backward", "the size of dx", dx.size(), "that of y", y.size());
    detail::same("softcap_backward", "the size of dx", dx.size(), "that of dy", dy.size());
    softcap_backward_impl(s, dx, y, dy, options);
  }
};
/// softcap_backward(s, dx, y, dy, {.cap, .scale}): dx[i] = dy[i] scale (1 - (y[i] / cap)^2), from
/// the result y; dx may be dy.
inline constexpr softcap_backward_fn softcap_backward{};

}  // namespace parallel::ops
