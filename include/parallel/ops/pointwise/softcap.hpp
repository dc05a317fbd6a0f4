// softcap: y = cap tanh(scale x / cap), which limits logits to ±cap (Gemma 2, 2024, section 2), and
// its gradient. x and y are accumulate_t<T> (float or double); the gradient is T. Cost: one pass.
#pragma once

#include <cmath>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::ops {

struct softcap_options {
  double cap = 1.0;    ///< > 0
  double scale = 1.0;  ///< x is multiplied by this factor before the cap applies
};

/// Three operations per element: scaling, tanh, multiplication by the cap.
struct capped_value : detail::pointwise_function<false, 3> {
  static constexpr char const* name = "softcap";
  softcap_options options;

  template <class A>
  A operator()(A x) const {
    return static_cast<A>(options.cap * std::tanh(options.scale * double(x) / options.cap));
  }
};
template <class A>
using softcap_arguments = pointwise_arguments<capped_value, A, A>;
/// softcap(s, y, x, {.cap, .scale}): y[i] = cap tanh(scale x[i] / cap); y may be x.
inline constexpr auto softcap = []<class Stream, writable A>(
                                    Stream& s, std::span<A> y,
                                    std::span<std::type_identity_t<A> const> x,
                                    softcap_options options) {
  detail::run_pointwise(s, capped_value{{}, options}, y, x);
};

/// Five operations per element: the slope of the cap, times dy.
struct softcap_gradient : detail::pointwise_function<false, 5> {
  static constexpr char const *name = "softcap_backward",
                              *sizes[] = {"the size of dx", "that of y", "that of dy"};
  softcap_options options;

  template <class A>
  A operator()(A y, A dy) const {
    double const tanh_value = double(y) / options.cap;
    double const slope = options.scale * (1.0 - tanh_value * tanh_value);
    return static_cast<A>(double(dy) * slope);
  }
};
template <class T>
using softcap_backward_arguments = pointwise_arguments<softcap_gradient, T, accumulate_t<T>, T>;
/// softcap_backward(s, dx, y, dy, {.cap, .scale}): dx[i] = dy[i] scale (1 - (y[i] / cap)^2), from
/// the result y; dx may be dy.
inline constexpr auto softcap_backward =
    []<class Stream, writable T>(Stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                                 std::span<std::type_identity_t<T> const> dy,
                                 softcap_options options) {
      detail::run_pointwise(s, softcap_gradient{{}, options}, dx, y, dy);
    };

}  // namespace parallel::ops
