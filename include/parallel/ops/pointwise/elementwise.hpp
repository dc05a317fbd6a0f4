// Element-wise operations on flat arrays: fill, copy, add, multiply, scale, axpby, normalise, cast.
//
// T is float, bf16, double or std::uint64_t (arithmetic modulo 2^64; not for axpby, normalise and
// cast). Arithmetic is done in accumulate_t<T> and rounded once. Inputs and outputs may be the same
// array, but must not overlap otherwise. Cost: memory bandwidth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

template <class T>
struct fill_arguments {
  static constexpr char const* name = "fill";
  std::span<T> y;
  T value;

  [[nodiscard]] auto operands() const { return std::tuple(y); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    detail::for_each_in_run(part, y, [&](std::size_t i) { y[i] = value; });
  }
};

struct fill_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::type_identity_t<T> value) const {
    run_operation(s, fill_arguments<T>{y, value});
  }
};
/// fill(s, y, value): y[i] = value.
inline constexpr fill_fn fill{};

template <class T>
struct copy_arguments {
  static constexpr char const* name = "copy";
  std::span<T> y;
  std::span<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    detail::for_each_in_run(part, y, [&](std::size_t i) { y[i] = x[i]; });
  }
};

template <class T>
struct copy_rows_arguments {
  static constexpr char const* name = "copy";
  rows_view<T> y;
  rows_view<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  [[nodiscard]] index parts() const { return y.rows; }
  void compute(index r) const {
    for (index i = 0; i < y.columns; ++i) y.row(r)[i] = x.row(r)[i];
  }
};

struct copy_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::require_equal("copy", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, copy_arguments<T>{y, x});
  }
  template <class Stream, writable T>
  void operator()(Stream& s, rows_view<T> y, rows_view<std::type_identity_t<T> const> x) const {
    detail::require_equal("copy", "the number of rows of y", y.rows, "that of x", x.rows);
    detail::require_equal("copy", "the number of columns of y", y.columns, "that of x", x.columns);
    run_operation(s, copy_rows_arguments<T>{y, x});
  }
};
/// copy(s, y, x): y[i] = x[i]. The rows of x and y may lie apart (rows_view).
inline constexpr copy_fn copy{};

template <class T>
struct add_arguments {
  static constexpr char const* name = "add";
  std::span<T> y;
  std::span<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y), x); }
  [[nodiscard]] std::uint64_t flops() const { return y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_each_in_run(part, y,
                            [&](std::size_t i) { y[i] = static_cast<T>(A(y[i]) + A(x[i])); });
  }
};

struct add_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::require_equal("add", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, add_arguments<T>{y, x});
  }
};
/// add(s, y, x): y[i] += x[i].
inline constexpr add_fn add{};

template <class T>
struct multiply_arguments {
  static constexpr char const* name = "multiply";
  std::span<T> y;
  std::span<T const> x;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y), x); }
  [[nodiscard]] std::uint64_t flops() const { return y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_each_in_run(part, y,
                            [&](std::size_t i) { y[i] = static_cast<T>(A(y[i]) * A(x[i])); });
  }
};

struct multiply_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::require_equal("multiply", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, multiply_arguments<T>{y, x});
  }
};
/// multiply(s, y, x): y[i] *= x[i].
inline constexpr multiply_fn multiply{};

template <class T>
struct scale_arguments {
  static constexpr char const* name = "scale";
  std::span<T> y;
  accumulate_t<T> factor;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y)); }
  [[nodiscard]] std::uint64_t flops() const { return y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    detail::for_each_in_run(part, y,
                            [&](std::size_t i) { y[i] = static_cast<T>(A(y[i]) * factor); });
  }
};

struct scale_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, accumulate_t<T> factor) const {
    run_operation(s, scale_arguments<T>{y, factor});
  }
};
/// scale(s, y, factor): y[i] *= factor.
inline constexpr scale_fn scale{};

namespace detail {

/// The type in which elements of T and U are added: float, or double if either is double.
template <class T, class U>
using sum_of_t = std::common_type_t<accumulate_t<T>, accumulate_t<U>>;

}  // namespace detail

template <class T, class U>
struct axpby_arguments {
  static constexpr char const* name = "axpby";
  std::span<T> y;
  std::span<U const> x;
  double alpha;
  double beta;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y), x); }
  [[nodiscard]] std::uint64_t flops() const { return 3 * y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using S = detail::sum_of_t<T, U>;
    auto const a = static_cast<S>(alpha), b = static_cast<S>(beta);
    detail::for_each_in_run(part, y, [&](std::size_t i) {
      y[i] = static_cast<T>(static_cast<accumulate_t<T>>(a * S(x[i]) + b * S(y[i])));
    });
  }
};

struct axpby_fn {
  template <class Stream, writable T, class U>
  void operator()(Stream& s, std::span<T> y, std::span<U> x, double alpha, double beta) const {
    detail::require_equal("axpby", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, axpby_arguments<T, std::remove_const_t<U>>{
                         y, std::span<std::remove_const_t<U> const>(x), alpha, beta});
  }
};
/// axpby(s, y, x, alpha, beta): y[i] = alpha x[i] + beta y[i], computed in double if either type is
/// double, else in float, and rounded once. y may be narrower than x: a sum in float is rounded to
/// bf16.
inline constexpr axpby_fn axpby{};

template <class T>
struct normalise_arguments {
  static constexpr char const* name = "normalise";
  std::span<T> y;
  double const* squared_norm;
  double min_norm;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y)); }
  [[nodiscard]] std::uint64_t flops() const { return y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    auto const round = [](double x) { return A(static_cast<T>(static_cast<A>(x))); };
    A const divisor = std::max(round(std::sqrt(*squared_norm)), round(min_norm));
    detail::for_each_in_run(part, y,
                            [&](std::size_t i) { y[i] = static_cast<T>(A(y[i]) / divisor); });
  }
};

struct normalise_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, double const* norm_squared, double min_norm) const {
    run_operation(s, normalise_arguments<T>{y, norm_squared, min_norm});
  }
};
/// normalise(s, y, norm_squared, min_norm): y[i] /= max(sqrt(*norm_squared), min_norm), where the
/// divisor is rounded to T. The squared norm is read when the task runs.
inline constexpr normalise_fn normalise{};

template <class To, class From>
struct cast_arguments {
  static constexpr char const* name = "cast";
  std::span<To> y;
  std::span<From const> x;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    detail::for_each_in_run(part, y, [&](std::size_t i) {
      y[i] = static_cast<To>(static_cast<accumulate_t<To>>(accumulate_t<From>(x[i])));
    });
  }
};

struct cast_fn {
  template <class Stream, writable To, class From>
  void operator()(Stream& s, std::span<To> y, std::span<From> x) const {
    detail::require_equal("cast", "the size of y", y.size(), "that of x", x.size());
    run_operation(s, cast_arguments<To, std::remove_const_t<From>>{
                         y, std::span<std::remove_const_t<From> const>(x)});
  }
};
/// cast(s, y, x): y[i] = x[i] in another element type, rounded to nearest, ties to even. The types
/// are float, bf16 and double; double is rounded to float before it is rounded to bf16.
inline constexpr cast_fn cast{};

}  // namespace parallel::ops
