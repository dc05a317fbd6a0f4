// rms_norm over rows: y = x rstd * weight, rstd = 1/sqrt(mean(x^2) + eps) (Zhang, Sennrich, 2019):
// layer_norm without the centre and the bias. Rows may lie apart (rows_view). T is float, bf16 or
// double; rstd and the gradient of weight are accumulate_t<T>. Cost: one pass over memory each (a
// row stays in cache).
#pragma once

#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

struct rms_norm_options {
  double eps = 1e-5;
};

struct rms_norm_fn {
  template <class Stream, class Y, class T = typename Y::value_type>
  void operator()(Stream& s, Y y, vector_view<accumulate_t<T>> rstd,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  rms_norm_options options = {}) const {
    rows_view<T> const out(y);
    detail::same("rms_norm", "the number of rows of y", out.rows, "that of x", x.rows);
    detail::same("rms_norm", "the number of columns of y", out.columns, "that of x", x.columns);
    detail::same("rms_norm", "the size of weight", weight.extent(0), "that of a row", x.columns);
    if (!rstd.empty())
      detail::same("rms_norm", "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
    rms_norm_impl(s, out, rstd, x, weight, options);
  }
};
/// rms_norm(s, y, rstd, x, weight, {.eps}): x, y [M,D] (matrix_view or rows_view; y may be x),
/// weight [D]; rstd [M] for the backward pass, or empty.
inline constexpr rms_norm_fn rms_norm{};

struct rms_norm_backward_input_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {}) const {
    rows_view<T> const out(dx);
    auto constexpr name = "rms_norm_backward_input";
    detail::same(name, "the number of rows of dx", out.rows, "that of dy", dy.rows);
    detail::same(name, "the number of rows of dx", out.rows, "that of x", x.rows);
    detail::same(name, "the number of columns of dx", out.columns, "that of dy", dy.columns);
    detail::same(name, "the number of columns of dx", out.columns, "that of x", x.columns);
    detail::same(name, "the size of weight", weight.extent(0), "that of a row", x.columns);
    detail::same(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
    shape<2> const given{addend.rows, addend.columns};  // nvcc garbles braces inside a cast
    shape<2> const wanted{out.rows, out.columns};
    static_cast<void>(detail::adds(name, given, wanted));
    rms_norm_backward_input_impl(s, out, dy, x, weight, rstd, addend);
  }
};
/// rms_norm_backward_input(s, dx, dy, x, weight, rstd, addend): with x^ = x rstd and g = dy weight,
/// dx = rstd (g - x^ mean(g x^)), the mean over a row, plus `addend` [M,D] if there is one, rounded
/// once; dx may be dy, and overlaps nothing else.
inline constexpr rms_norm_backward_input_fn rms_norm_backward_input{};

struct rms_norm_backward_weight_fn {
  template <class Stream, class Dy, class T = typename Dy::value_type>
  void operator()(Stream& s, vector_view<accumulate_t<T>> dweight, Dy dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<accumulate_t<T> const> rstd) const {
    rows_view<T const> const gradient(dy);
    auto constexpr name = "rms_norm_backward_weight";
    detail::same(name, "the number of rows of dy", gradient.rows, "that of x", x.rows);
    detail::same(name, "the number of columns of dy", gradient.columns, "that of x", x.columns);
    detail::same(name, "the size of dweight", dweight.extent(0), "that of a row", x.columns);
    detail::same(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
    rms_norm_backward_weight_impl(s, dweight, gradient, x, rstd);
  }
};
/// rms_norm_backward_weight(s, dweight, dy, x, rstd): dweight += sum over rows of dy x^. The order
/// is a function of the shape alone.
inline constexpr rms_norm_backward_weight_fn rms_norm_backward_weight{};

}  // namespace parallel::ops
