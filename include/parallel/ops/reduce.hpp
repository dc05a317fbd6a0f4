// Reductions to one number: squared_norm, sum, all_finite. Each adds to (or clears) its output, so
// several arrays are reduced by several calls; set the output before the first.
//
// Sums are taken in double over fixed blocks that are added in order: the result does not depend on
// the number of threads. Over std::uint64_t they are exact modulo 2^64. Cost: one pass.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/exact_sum.hpp>

namespace parallel::ops {

namespace detail {

template <class T>
struct sum_type {
  using type = double;
};
template <>
struct sum_type<std::uint64_t> {
  using type = std::uint64_t;
};
template <>
struct sum_type<std::uint8_t> {
  using type = std::int64_t;
};

}  // namespace detail

/// In what elements of T are summed: double; 64-bit integers for std::uint64_t and std::uint8_t.
template <class T>
using sum_t = typename detail::sum_type<std::remove_cv_t<T>>::type;

struct squared_norm_fn {
  template <class Stream, class T>
  void operator()(Stream& s, sum_t<T>* out, std::span<T> x) const {
    squared_norm_impl(s, out, std::span<std::remove_const_t<T> const>(x));
  }
};
/// squared_norm(s, out, x): *out += sum of x[i]^2. x is float, bf16, double (out double) or
/// std::uint64_t (out std::uint64_t).
inline constexpr squared_norm_fn squared_norm{};

struct exact_squared_norm_fn {
  template <class Stream, class T>
  void operator()(Stream& s, exact_sum* out, std::span<T> x) const {
    exact_squared_norm_impl(s, out, std::span<std::remove_const_t<T> const>(x));
  }
};
/// exact_squared_norm(s, out, x): *out += x[i]^2, each rounded to double (those of float and bf16
/// are exact), without rounding their sum: the same however x is divided. x is float, bf16 or
/// double. Cost: one pass on one thread, some ten times that of squared_norm.
inline constexpr exact_squared_norm_fn exact_squared_norm{};

struct sum_fn {
  template <class Stream, class T>
  void operator()(Stream& s, sum_t<T>* out, std::span<T> x) const {
    sum_impl(s, out, std::span<std::remove_const_t<T> const>(x));
  }
};
/// sum(s, out, x): *out += sum of x[i]. x as for squared_norm, or std::uint8_t (out std::int64_t).
inline constexpr sum_fn sum{};

struct all_finite_fn {
  template <class Stream, class T>
  void operator()(Stream& s, int* out, std::span<T> x) const {
    all_finite_impl(s, out, std::span<std::remove_const_t<T> const>(x));
  }
};
/// all_finite(s, out, x): *out = 0 if any x[i] is infinite or NaN, else *out is not touched.
inline constexpr all_finite_fn all_finite{};

}  // namespace parallel::ops
