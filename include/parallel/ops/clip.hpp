// clip: clamps to [-limit, limit] in place (MPT's clip_qkv) and remembers, one byte an element,
// which elements were inside: only those pass a gradient. T is float, bf16 or double; the limit has
// the type T is accumulated in. A NaN stays NaN and is outside.
#pragma once

#include <cstdint>
#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>

namespace parallel::ops {

struct clip_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> x, std::span<std::uint8_t> inside,
                  accumulate_t<T> limit) const {
    require(static_cast<double>(limit) >= 0, "ops::clip: the limit is ", limit,
            ", but must not be negative");
    if (!inside.empty())
      detail::same("clip", "the size of inside", inside.size(), "that of x", x.size());
    clip_impl(s, x, inside, limit);
  }
};
/// clip(s, x, inside, limit): inside[i] = |x[i]| <= limit, then x[i] = clamp(x[i], ±limit).
/// `inside` may be empty.
inline constexpr clip_fn clip{};

struct clip_backward_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> dx, std::span<std::uint8_t const> inside) const {
    detail::same("clip_backward", "the size of inside", inside.size(), "that of dx", dx.size());
    clip_backward_impl(s, dx, inside);
  }
};
/// clip_backward(s, dx, inside): dx[i] = 0 where inside[i] is 0.
inline constexpr clip_backward_fn clip_backward{};

}  // namespace parallel::ops
