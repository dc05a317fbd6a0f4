// Element-wise operations on flat arrays: fill, copy, add, multiply, scale, axpby, normalise, cast.
//
// All but copy are pointwise: y[i] = f(x[i], ...), or y[i] = f(y[i], x[i], ...). The function
// object f is a pointwise_function with a `name` and the formula on numbers of accumulate_t of the
// arrays' types. Kernels run the same formula, unless they have a kernel_form of f; the host has a
// simd_form. f.when_run() is f with what it reads from memory when the task runs.
//
// T is float, bf16, double or std::uint64_t (arithmetic modulo 2^64; not for axpby, normalise and
// cast). Arithmetic is done in accumulate_t<T> and rounded once. Inputs and outputs may be the same
// array, but must not overlap otherwise. Cost: memory bandwidth.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

namespace detail {

/// Begins a function: whether y[i] is its first argument, the operations per element, and how an
/// error calls the sizes of y and of its inputs.
template <bool ReadsResult, unsigned Flops = 0>
struct pointwise_function {
  static constexpr bool reads_result = ReadsResult;
  static constexpr char const* sizes[] = {"the size of y", "that of x"};
  [[nodiscard]] static constexpr std::uint64_t flops() { return Flops; }
};

/// The function as it is when its task runs.
template <class F>
[[nodiscard]] PARALLELLM_HOST_DEVICE F when_run(F const& f) {
  if constexpr (requires { f.when_run(); })
    return f.when_run();
  else
    return f;
}

}  // namespace detail

/// The arguments of an operation that computes y[i] by F from y[i] and the inputs' elements i.
template <class F, class T, class... X>
struct pointwise_arguments {
  static constexpr char const* name = F::name;
  std::span<T> y;
  std::tuple<std::span<X const>...> inputs;
  F function;

  [[nodiscard]] auto operands() const {
    return std::apply(
        [&](auto... x) {
          if constexpr (F::reads_result)
            return std::tuple(updates(y), x...);
          else
            return std::tuple(y, x...);
        },
        inputs);
  }
  [[nodiscard]] std::uint64_t flops() const { return function.flops() * y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    auto const f = detail::when_run(function);
    auto const assign = [&](auto... x) {
      detail::for_each_in_run(part, y, [&](std::size_t i) {
        if constexpr (F::reads_result)
          y[i] = static_cast<T>(f(accumulate_t<T>(y[i]), accumulate_t<X>(x[i])...));
        else
          y[i] = static_cast<T>(f(accumulate_t<X>(x[i])...));
      });
    };
    std::apply(assign, inputs);
  }
};

namespace detail {

/// Enqueues y[i] = f(x[i], ...); throws `error` unless the sizes are equal.
template <class F, class Stream, class T, class... X>
void run_pointwise(Stream& s, F const& f, std::span<T> y, std::span<X const>... x) {
  [[maybe_unused]] std::size_t input = 0;
  (require_equal(F::name, F::sizes[0], y.size(), F::sizes[++input], x.size()), ...);
  run_operation(s, pointwise_arguments<F, T, X...>{y, {x...}, f});
}

/// The type in which elements of T and U are added: float, or double if either is double.
template <class T, class U>
using sum_of_t = std::common_type_t<accumulate_t<T>, accumulate_t<U>>;

}  // namespace detail

/// The function of `fill`.
template <class T>
struct constant : detail::pointwise_function<false> {
  static constexpr char const* name = "fill";
  T value;

  PARALLELLM_HOST_DEVICE T operator()() const { return value; }
};
template <class T>
using fill_arguments = pointwise_arguments<constant<T>, T>;
/// fill(s, y, value): y[i] = value.
inline constexpr auto fill = []<class Stream, writable T>(Stream& s, std::span<T> y,
                                                          std::type_identity_t<T> value) {
  detail::run_pointwise(s, constant<T>{{}, value}, y);
};

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

/// The arguments of `copy` for rows that are not adjacent.
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
/// copy(s, y, x): y[i] = x[i]. The rows of x and y need not be adjacent (rows_view).
inline constexpr copy_fn copy{};

/// The function of `add`.
struct addition : detail::pointwise_function<true, 1> {
  static constexpr char const* name = "add";
  template <class A>
  PARALLELLM_HOST_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
};
template <class T>
using add_arguments = pointwise_arguments<addition, T, T>;
/// add(s, y, x): y[i] += x[i].
inline constexpr auto add = []<class Stream, writable T>(
                                Stream& s, std::span<T> y,
                                std::span<std::type_identity_t<T> const> x) {
  detail::run_pointwise(s, addition{}, y, x);
};

/// The function of `multiply`.
struct multiplication : detail::pointwise_function<true, 1> {
  static constexpr char const* name = "multiply";
  template <class A>
  PARALLELLM_HOST_DEVICE A operator()(A a, A b) const {
    return a * b;
  }
};
template <class T>
using multiply_arguments = pointwise_arguments<multiplication, T, T>;
/// multiply(s, y, x): y[i] *= x[i].
inline constexpr auto multiply = []<class Stream, writable T>(
                                     Stream& s, std::span<T> y,
                                     std::span<std::type_identity_t<T> const> x) {
  detail::run_pointwise(s, multiplication{}, y, x);
};

/// The function of `scale`.
template <class A>
struct scaling : detail::pointwise_function<true, 1> {
  static constexpr char const* name = "scale";
  A factor;

  PARALLELLM_HOST_DEVICE A operator()(A a) const { return a * factor; }
};
template <class T>
using scale_arguments = pointwise_arguments<scaling<accumulate_t<T>>, T>;
/// scale(s, y, factor): y[i] *= factor.
inline constexpr auto scale = []<class Stream, writable T>(Stream& s, std::span<T> y,
                                                           accumulate_t<T> factor) {
  detail::run_pointwise(s, scaling<accumulate_t<T>>{{}, factor}, y);
};

/// A sum in S of multiples.
template <class S>
struct linear_combination : detail::pointwise_function<true, 3> {
  static constexpr char const* name = "axpby";
  S alpha, beta;

  linear_combination(double a, double b) : alpha(static_cast<S>(a)), beta(static_cast<S>(b)) {}
  template <class A, class B>
  PARALLELLM_HOST_DEVICE A operator()(A y, B x) const {
    return static_cast<A>(alpha * S(x) + beta * S(y));
  }
};
template <class T, class U>
using axpby_arguments = pointwise_arguments<linear_combination<detail::sum_of_t<T, U>>, T, U>;
/// axpby(s, y, x, alpha, beta): y[i] = alpha x[i] + beta y[i], computed in double if either type is
/// double, else in float, and rounded once. y may be narrower than x: a sum in float is rounded to
/// bf16.
inline constexpr auto axpby = []<class Stream, writable T, class U>(Stream& s, std::span<T> y,
                                                                    std::span<U> x, double alpha,
                                                                    double beta) {
  using From = std::remove_const_t<U>;
  detail::run_pointwise(s, linear_combination<detail::sum_of_t<T, From>>(alpha, beta), y,
                        std::span<From const>(x));
};

/// The function of `normalise`.
template <class T>
struct norm_division : detail::pointwise_function<true, 1> {
  using A = accumulate_t<T>;
  static constexpr char const* name = "normalise";
  double const* squared_norm;
  double min_norm;
  A divisor = 1;

  [[nodiscard]] PARALLELLM_HOST_DEVICE norm_division when_run() const {
    auto const round = [](double x) { return static_cast<A>(static_cast<T>(static_cast<A>(x))); };
    A const norm = round(std::sqrt(*squared_norm)), bound = round(min_norm);
    auto result = *this;
    result.divisor = norm < bound ? bound : norm;  // a NaN norm stays NaN
    return result;
  }
  PARALLELLM_HOST_DEVICE A operator()(A a) const { return a / divisor; }
};
template <class T>
using normalise_arguments = pointwise_arguments<norm_division<T>, T>;
/// normalise(s, y, norm_squared, min_norm): y[i] /= max(sqrt(*norm_squared), min_norm), where the
/// divisor is rounded to T. The squared norm is read when the task runs.
inline constexpr auto normalise = []<class Stream, writable T>(Stream& s, std::span<T> y,
                                                               double const* norm_squared,
                                                               double min_norm) {
  detail::run_pointwise(s, norm_division<T>{{}, norm_squared, min_norm}, y);
};

/// The function of `cast`.
template <class A>
struct conversion : detail::pointwise_function<false> {
  static constexpr char const* name = "cast";
  template <class B>
  PARALLELLM_HOST_DEVICE A operator()(B x) const {
    return static_cast<A>(x);
  }
};
template <class To, class From>
using cast_arguments = pointwise_arguments<conversion<accumulate_t<To>>, To, From>;
/// cast(s, y, x): y[i] = x[i] in another element type, rounded to nearest, ties to even. The types
/// are float, bf16 and double; double is rounded to float before it is rounded to bf16.
inline constexpr auto cast = []<class Stream, writable To, class From>(Stream& s, std::span<To> y,
                                                                       std::span<From> x) {
  detail::run_pointwise(s, conversion<accumulate_t<To>>{}, y,
                        std::span<std::remove_const_t<From> const>(x));
};

}  // namespace parallel::ops
