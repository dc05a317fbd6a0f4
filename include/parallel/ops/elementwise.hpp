// Element-wise operations on flat arrays: fill, copy, add, multiply, scale, axpby, normalise, cast.
//
// T is float, bf16, double or std::uint64_t (arithmetic modulo 2^64; not for axpby, normalise and
// cast). Arithmetic is done in accumulate_t<T> and rounded once. Inputs and outputs may be the same
// array, but must not overlap otherwise. Cost: memory bandwidth.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

struct fill_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::type_identity_t<T> value) const {
    fill_impl(s, y, value);
  }
};
/// fill(s, y, value): y[i] = value.
inline constexpr fill_fn fill{};

struct copy_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::same("copy", "the size of y", y.size(), "that of x", x.size());
    copy_impl(s, y, x);
  }
  template <class Stream, writable T>
  void operator()(Stream& s, rows_view<T> y, rows_view<std::type_identity_t<T> const> x) const {
    detail::same("copy", "the number of rows of y", y.rows, "that of x", x.rows);
    detail::same("copy", "the number of columns of y", y.columns, "that of x", x.columns);
    copy_impl(s, y, x);
  }
};
/// copy(s, y, x): y[i] = x[i]. Also of rows that lie apart (rows_view).
inline constexpr copy_fn copy{};

struct add_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::same("add", "the size of y", y.size(), "that of x", x.size());
    add_impl(s, y, x);
  }
};
/// add(s, y, x): y[i] += x[i].
inline constexpr add_fn add{};

struct multiply_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, std::span<std::type_identity_t<T> const> x) const {
    detail::same("multiply", "the size of y", y.size(), "that of x", x.size());
    multiply_impl(s, y, x);
  }
};
/// multiply(s, y, x): y[i] *= x[i].
inline constexpr multiply_fn multiply{};

struct scale_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, accumulate_t<T> factor) const {
    scale_impl(s, y, factor);
  }
};
/// scale(s, y, factor): y[i] *= factor.
inline constexpr scale_fn scale{};

namespace detail {

/// In what elements of T and U are added: float, or double when either is.
template <class T, class U>
using sum_of_t = std::common_type_t<accumulate_t<T>, accumulate_t<U>>;

}  // namespace detail

struct axpby_fn {
  template <class Stream, writable T, class U>
  void operator()(Stream& s, std::span<T> y, std::span<U> x, double alpha, double beta) const {
    detail::same("axpby", "the size of y", y.size(), "that of x", x.size());
    axpby_impl(s, y, std::span<std::remove_const_t<U> const>(x), alpha, beta);
  }
};
/// axpby(s, y, x, alpha, beta): y[i] = alpha x[i] + beta y[i], in double where either is, else in
/// float, rounded once. y may be narrower than x: a sum in float goes to bf16.
inline constexpr axpby_fn axpby{};

struct normalise_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, std::span<T> y, double const* squared_norm, double least) const {
    normalise_impl(s, y, squared_norm, least);
  }
};
/// normalise(s, y, squared_norm, least): y[i] /= max(sqrt(*squared_norm), least), a divisor rounded
/// to T. The norm is read when the task runs.
inline constexpr normalise_fn normalise{};

struct cast_fn {
  template <class Stream, writable To, class From>
  void operator()(Stream& s, std::span<To> y, std::span<From> x) const {
    detail::same("cast", "the size of y", y.size(), "that of x", x.size());
    cast_impl(s, y, std::span<std::remove_const_t<From> const>(x));
  }
};
/// cast(s, y, x): y[i] = x[i] in another element type, to nearest, ties to even. Between float,
/// bf16 and double; double goes to bf16 by way of float.
inline constexpr cast_fn cast{};

}  // namespace parallel::ops
