// rms_norm over rows: y = x rstd * weight, rstd = 1/sqrt(mean(x^2) + eps) (Zhang, Sennrich, 2019).
// This is layer_norm without the subtraction of the mean and without the bias. Rows may lie apart
// (rows_view). T is float, bf16 or double; rstd and the gradient of weight are accumulate_t<T>.
// Cost: one pass over memory each (a row stays in cache).
#pragma once

#include <cmath>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/detail/norm_rows.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

struct rms_norm_options {
  double eps = 1e-5;
};

template <class T>
struct rms_norm_arguments {
  static constexpr char const* name = "rms_norm";
  rows_view<T> y;
  vector_view<accumulate_t<T>> rstd;
  rows_view<T const> x;
  vector_view<T const> weight;
  rms_norm_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, rstd, x, weight); }
  /// Four operations per element: mean square 2, result 2.
  [[nodiscard]] std::uint64_t flops() const {
    return 4 * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    double squares = 0.0;
    for (index n = 0; n < x.columns; ++n) squares += double(x.row(m)[n]) * double(x.row(m)[n]);
    double const factor = 1.0 / std::sqrt(squares / static_cast<double>(x.columns) + options.eps);
    if (!rstd.empty()) rstd(m) = static_cast<A>(factor);
    for (index n = 0; n < x.columns; ++n)
      y.row(m)[n] = static_cast<T>(static_cast<A>(double(x.row(m)[n]) * factor) * A(weight(n)));
  }
};

struct rms_norm_fn {
  template <class Stream, class Y, class T = typename Y::value_type>
  void operator()(Stream& s, Y y, vector_view<accumulate_t<T>> rstd,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  rms_norm_options options = {}) const {
    rows_view<T> const out(y);
    detail::require_equal("rms_norm", "the number of rows of y", out.rows, "that of x", x.rows);
    detail::require_equal("rms_norm", "the number of columns of y", out.columns, "that of x",
                          x.columns);
    detail::require_equal("rms_norm", "the size of weight", weight.extent(0), "that of a row",
                          x.columns);
    if (!rstd.empty())
      detail::require_equal("rms_norm", "the size of rstd", rstd.extent(0), "the number of rows",
                            x.rows);
    run_operation(s, rms_norm_arguments<T>{out, rstd, x, weight, options});
  }
};
/// rms_norm(s, y, rstd, x, weight, {.eps}): x, y [M,D] (matrix_view or rows_view; y may be x),
/// weight [D]; rstd [M] for the backward pass, or empty.
inline constexpr rms_norm_fn rms_norm{};

template <class T>
struct rms_norm_backward_input_arguments {
  static constexpr char const* name = "rms_norm_backward_input";
  rows_view<T> dx;
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<accumulate_t<T> const> rstd;
  rows_view<T const> addend;

  [[nodiscard]] auto operands() const { return std::tuple(dx, dy, x, weight, rstd, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return (addend.rows > 0 ? 9U : 8U) * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    auto const normal = [&](index n) { return A(x.row(m)[n]) * rstd(m); };
    auto const slope = [&](index n) { return A(dy.row(m)[n]) * A(weight(n)); };
    double product = 0.0;  // of slope * normal: the derivative by a scaling of all x
    for (index n = 0; n < x.columns; ++n) product += double(slope(n)) * double(normal(n));
    auto const stretch = static_cast<A>(product / static_cast<double>(x.columns));
    for (index n = 0; n < x.columns; ++n) {
      A const gradient = rstd(m) * (slope(n) - normal(n) * stretch);
      A const added = addend.rows > 0 ? A(addend.row(m)[n]) : A(0);
      dx.row(m)[n] = static_cast<T>(gradient + added);
    }
  }
};

struct rms_norm_backward_input_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {}) const {
    rows_view<T> const out(dx);
    auto constexpr name = "rms_norm_backward_input";
    detail::check_norm_rows<T>(name, out, dy, x, weight, rstd, addend);
    run_operation(s, rms_norm_backward_input_arguments<T>{out, dy, x, weight, rstd, addend});
  }
};
/// rms_norm_backward_input(s, dx, dy, x, weight, rstd, addend): with x^ = x rstd and g = dy weight,
/// dx = rstd (g - x^ mean(g x^)), with the mean over a row, plus `addend` [M,D] unless it is empty,
/// rounded once; dx may be dy, and overlaps no other argument.
inline constexpr rms_norm_backward_input_fn rms_norm_backward_input{};

template <class T>
struct rms_norm_backward_weight_arguments {
  static constexpr char const* name = "rms_norm_backward_weight";
  vector_view<accumulate_t<T>> dweight;
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<accumulate_t<T> const> rstd;

  [[nodiscard]] auto operands() const { return std::tuple(updates(dweight), dy, x, rstd); }
  [[nodiscard]] std::uint64_t flops() const {
    return 3 * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.columns; }
  void compute(index n) const {
    using A = accumulate_t<T>;
    double product = 0.0;
    for (index m = 0; m < x.rows; ++m)
      product += double(A(dy.row(m)[n])) * double(A(x.row(m)[n]) * rstd(m));
    dweight(n) += static_cast<A>(product);
  }
};

struct rms_norm_backward_weight_fn {
  template <class Stream, class Dy, class T = typename Dy::value_type>
  void operator()(Stream& s, vector_view<accumulate_t<T>> dweight, Dy dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<accumulate_t<T> const> rstd) const {
    rows_view<T const> const gradient(dy);
    auto constexpr name = "rms_norm_backward_weight";
    detail::require_equal(name, "the number of rows of dy", gradient.rows, "that of x", x.rows);
    detail::require_equal(name, "the number of columns of dy", gradient.columns, "that of x",
                          x.columns);
    detail::require_equal(name, "the size of dweight", dweight.extent(0), "that of a row",
                          x.columns);
    detail::require_equal(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
    run_operation(s, rms_norm_backward_weight_arguments<T>{dweight, gradient, x, rstd});
  }
};
/// rms_norm_backward_weight(s, dweight, dy, x, rstd): dweight += sum over rows of dy x^. The order
/// of summation depends on the shape alone.
inline constexpr rms_norm_backward_weight_fn rms_norm_backward_weight{};

}  // namespace parallel::ops
