// Reductions to one number: squared_norm, sum, all_finite. Each adds to (or clears) its output, so
// several calls reduce several arrays; set the output before the first call.
//
// Sums are in double over fixed blocks that are added in order, so that the result does not depend
// on the number of threads. Sums of std::uint64_t are exact modulo 2^64. Cost: one pass.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/exact_sum.hpp>
#include <parallel/ops/operation.hpp>

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

/// The type in which elements of T are summed: double; 64-bit integers for std::uint64_t and
/// std::uint8_t.
template <class T>
using sum_t = typename detail::sum_type<std::remove_cv_t<T>>::type;

template <class T>
struct squared_norm_arguments {
  static constexpr char const* name = "squared_norm";
  sum_t<T>* out;
  std::span<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(x); }
  [[nodiscard]] std::uint64_t flops() const { return 2 * x.size(); }
  void compute() const {
    sum_t<T> total = 0;
    for (T const element : x) {
      auto const value = static_cast<sum_t<T>>(element);
      total += value * value;
    }
    *out += total;
  }
};

/// squared_norm(s, out, x): *out += sum of x[i]^2. x is float, bf16, double (out double) or
/// std::uint64_t (out std::uint64_t).
inline constexpr auto squared_norm = []<class Stream, class T>(Stream& s, sum_t<T>* out,
                                                               std::span<T> x) {
  run_operation(s, squared_norm_arguments<std::remove_const_t<T>>{
                       out, std::span<std::remove_const_t<T> const>(x)});
};

template <class T>
struct exact_squared_norm_arguments {
  static constexpr char const* name = "exact_squared_norm";
  exact_sum* out;
  std::span<T const> x;

  [[nodiscard]] std::uint64_t flops() const { return 2 * x.size(); }
  void compute() const {
    for (T const element : x) {
      auto const value = static_cast<double>(element);
      out->add(value * value);
    }
  }
};

/// exact_squared_norm(s, out, x): *out += x[i]^2, each square rounded to double (squares of float
/// and bf16 are exact), without rounding their sum, so that the result is the same however x is
/// divided. x is float, bf16 or double. Cost: one pass on one thread, about ten times that of
/// squared_norm.
inline constexpr auto exact_squared_norm = []<class Stream, class T>(Stream& s, exact_sum* out,
                                                                     std::span<T> x) {
  run_operation(s, exact_squared_norm_arguments<std::remove_const_t<T>>{
                       out, std::span<std::remove_const_t<T> const>(x)});
};

template <class T>
struct sum_arguments {
  static constexpr char const* name = "sum";
  sum_t<T>* out;
  std::span<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(x); }
  [[nodiscard]] std::uint64_t flops() const { return x.size(); }
  void compute() const {
    sum_t<T> total = 0;
    for (T const element : x) total += static_cast<sum_t<T>>(element);
    *out += total;
  }
};

/// sum(s, out, x): *out += sum of x[i]. x as for squared_norm, or std::uint8_t (out std::int64_t).
inline constexpr auto sum = []<class Stream, class T>(Stream& s, sum_t<T>* out, std::span<T> x) {
  run_operation(
      s, sum_arguments<std::remove_const_t<T>>{out, std::span<std::remove_const_t<T> const>(x)});
};

template <class T>
struct all_finite_arguments {
  static constexpr char const* name = "all_finite";
  int* out;
  std::span<T const> x;

  void compute() const {
    if constexpr (!std::is_integral_v<T>)  // an integer is always finite
      for (T const element : x)
        if (!std::isfinite(accumulate_t<T>(element))) *out = 0;
  }
};

/// all_finite(s, out, x): *out = 0 if any x[i] is infinite or NaN, else *out is not touched.
inline constexpr auto all_finite = []<class Stream, class T>(Stream& s, int* out, std::span<T> x) {
  run_operation(s, all_finite_arguments<std::remove_const_t<T>>{
                       out, std::span<std::remove_const_t<T> const>(x)});
};

}  // namespace parallel::ops
