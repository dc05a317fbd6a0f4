// clip: clamps to [-limit, limit] in place (MPT's clip_qkv) and stores one byte per element:
// whether the element was inside that interval. Only elements inside have a gradient. T is float,
// bf16 or double; the limit is accumulate_t<T>. A NaN stays NaN and counts as outside.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

template <class T>
struct clip_arguments {
  static constexpr char const* name = "clip";
  std::span<T> x;
  std::span<std::uint8_t> inside;
  accumulate_t<T> limit;

  [[nodiscard]] auto operands() const { return std::tuple(updates(x), inside); }
  [[nodiscard]] index parts() const { return detail::run_count(x); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_each_in_run(part, x, [&](std::size_t i) {
      auto const value = A(x[i]);
      if (!inside.empty()) inside[i] = std::abs(value) <= limit ? 1 : 0;
      if (value > limit) x[i] = static_cast<T>(limit);
      if (value < -limit) x[i] = static_cast<T>(-limit);
    });
  }
};

/// clip(s, x, inside, limit): inside[i] = |x[i]| <= limit, then x[i] = clamp(x[i], ±limit).
/// `inside` may be empty.
inline constexpr auto clip = []<class Stream, writable T>(Stream& s, std::span<T> x,
                                                          std::span<std::uint8_t> inside,
                                                          accumulate_t<T> limit) {
  require(static_cast<double>(limit) >= 0, "ops::clip: the limit is ", limit,
          ", but must not be negative");
  if (!inside.empty())
    detail::require_equal("clip", "the size of inside", inside.size(), "that of x", x.size());
  run_operation(s, clip_arguments<T>{x, inside, limit});
};

template <class T>
struct clip_backward_arguments {
  static constexpr char const* name = "clip_backward";
  std::span<T> dx;
  std::span<std::uint8_t const> inside;

  [[nodiscard]] auto operands() const { return std::tuple(updates(dx), inside); }
  [[nodiscard]] index parts() const { return detail::run_count(dx); }
  void compute(index part) const {
    detail::for_each_in_run(part, dx, [&](std::size_t i) {
      if (inside[i] == 0) dx[i] = T{};
    });
  }
};

/// clip_backward(s, dx, inside): dx[i] = 0 where inside[i] is 0.
inline constexpr auto clip_backward =
    []<class Stream, writable T>(Stream& s, std::span<T> dx, std::span<std::uint8_t const> inside) {
      detail::require_equal("clip_backward", "the size of inside", inside.size(), "that of dx",
                            dx.size());
      run_operation(s, clip_backward_arguments<T>{dx, inside});
    };

}  // namespace parallel::ops
