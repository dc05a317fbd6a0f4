// softcap: y = cap tanh(scale x / cap), which limits logits to ±cap (Gemma 2, 2024, section 2), and
// its gradient. x and y are accumulate_t<T> (float or double); the gradient is T. Cost: one pass.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct softcap_options {
  double cap = 1.0;    // > 0
  double scale = 1.0;  // x is multiplied by this factor before the cap applies
};

template <class A>
struct softcap_arguments {
  static constexpr char const* name = "softcap";
  std::span<A> y;
  std::span<A const> x;
  softcap_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  /// Three operations per element: scaling, tanh, multiplication by the cap.
  [[nodiscard]] std::uint64_t flops() const { return 3 * y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    detail::for_each_in_run(part, y, [&](std::size_t i) {
      y[i] = static_cast<A>(options.cap * std::tanh(options.scale * double(x[i]) / options.cap));
    });
  }
};

struct softcap_fn {
  template <class Stream, writable A>
  void operator()(Stream& s, std::span<A> y, std::span<std::type_identity_t<A> const> x,
                  softcap_options options) const {
    detail::require_equal("softcap", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, softcap_arguments<A>{y, x, options});
  }
};
/// softcap(s, y, x, {.cap, .scale}): y[i] = cap tanh(scale x[i] / cap); y may be x.
inline constexpr softcap_fn softcap{};

template <class T>
struct softcap_backward_arguments {
  static constexpr char const* name = "softcap_backward";
  std::span<T> dx;
  std::span<accumulate_t<T> const> y;
  std::span<T const> dy;
  softcap_options options;

  [[nodiscard]] auto operands() const { return std::tuple(dx, y, dy); }
  [[nodiscard]] std::uint64_t flops() const { return 5 * dx.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(dx); }
  void compute(index part) const {
    detail::for_each_in_run(part, dx, [&](std::size_t i) {
      double const tanh_value = double(y[i]) / options.cap;
      double const slope = options.scale * (1.0 - tanh_value * tanh_value);
      dx[i] = static_cast<T>(static_cast<accumulate_t<T>>(double(dy[i]) * slope));
    });
  }
};

struct softcap_backward_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                  std::span<std::type_identity_t<T> const> dy, softcap_options options) const {
    detail::require_equal("softcap_backward", "the size of dx", dx.size(), "that of y", y.size());
    detail::require_equal("softcap_backward", "the size of dx", dx.size(), "that of dy", dy.size());
    run_operation(s, softcap_backward_arguments<T>{dx, y, dy, options});
  }
};
/// softcap_backward(s, dx, y, dy, {.cap, .scale}): dx[i] = dy[i] scale (1 - (y[i] / cap)^2), from
/// the result y; dx may be dy.
inline constexpr softcap_backward_fn softcap_backward{};

}  // namespace parallel::ops
