// layer_norm over rows: y = (x - mean) rstd * weight + bias, rstd = 1/sqrt(variance + eps) (Ba,
// Kiros, Hinton, 2016). The variance is the mean square around the mean, computed in a second pass,
// so that there is no cancellation. Rows may lie apart (rows_view): the q or k of a packed [q | k |
// v] is normalised without a copy. T is float, bf16 or double; mean, rstd and the gradients of
// parameters are accumulate_t<T>. Cost: each operation reads and writes memory once, since a row
// stays in cache.
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

struct layer_norm_options {
  double eps = 1e-5;
};

template <class T>
struct layer_norm_arguments {
  static constexpr char const* name = "layer_norm";
  rows_view<T> y;
  vector_view<accumulate_t<T>> mean;
  vector_view<accumulate_t<T>> rstd;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<T const> bias;
  layer_norm_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, mean, rstd, x, weight, bias); }
  /// Eight operations per element: mean 1, variance 3, result 4.
  [[nodiscard]] std::uint64_t flops() const {
    return 8 * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    auto const width = static_cast<double>(x.columns);
    double total = 0.0;
    for (index n = 0; n < x.columns; ++n) total += double(x.row(m)[n]);
    double const center = total / width;
    double squares = 0.0;
    for (index n = 0; n < x.columns; ++n) {
      double const distance = double(x.row(m)[n]) - center;
      squares += distance * distance;
    }
    double const factor = 1.0 / std::sqrt(squares / width + double(options.eps));
    if (!mean.empty()) {
      mean(m) = static_cast<A>(center);
      rstd(m) = static_cast<A>(factor);
    }
    for (index n = 0; n < x.columns; ++n) {
      auto const normal = static_cast<A>((double(x.row(m)[n]) - center) * factor);
      A const shift = bias.empty() ? A(0) : A(bias(n));
      y.row(m)[n] = static_cast<T>(normal * A(weight(n)) + shift);
    }
  }
};

struct layer_norm_fn {
  template <class Stream, class Y, class T = typename Y::value_type>
  void operator()(Stream& s, Y y, vector_view<accumulate_t<T>> mean,
                  vector_view<accumulate_t<T>> rstd, rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<std::type_identity_t<T> const> bias,
                  layer_norm_options options = {}) const {
    rows_view<T> const out(y);
    detail::require_equal("layer_norm", "the number of rows of y", out.rows, "that of x", x.rows);
    detail::require_equal("layer_norm", "the number of columns of y", out.columns, "that of x",
                          x.columns);
    detail::require_equal("layer_norm", "the size of weight", weight.extent(0), "that of a row",
                          x.columns);
    detail::require_equal("layer_norm", "the size of mean", mean.extent(0), "that of rstd",
                          rstd.extent(0));
    if (!mean.empty())
      detail::require_equal("layer_norm", "the size of mean", mean.extent(0), "the number of rows",
                            x.rows);
    if (!bias.empty())
      detail::require_equal("layer_norm", "the size of bias", bias.extent(0), "that of a row",
                            x.columns);
    run_operation(s, layer_norm_arguments<T>{out, mean, rstd, x, weight, bias, options});
  }
};
/// layer_norm(s, y, mean, rstd, x, weight, bias, {.eps}): x, y [M,D] (matrix_view or rows_view; y
/// may be x), weight [D], bias [D] or empty; mean, rstd [M] for the backward pass, or both empty.
inline constexpr layer_norm_fn layer_norm{};

template <class T>
struct layer_norm_backward_input_arguments {
  static constexpr char const* name = "layer_norm_backward_input";
  rows_view<T> dx;
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<accumulate_t<T> const> mean;
  vector_view<accumulate_t<T> const> rstd;
  rows_view<T const> addend;

  [[nodiscard]] auto operands() const { return std::tuple(dx, dy, x, weight, mean, rstd, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return (addend.rows > 0 ? 13U : 12U) * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    auto const width = static_cast<double>(x.columns);
    auto const normal = [&](index n) { return (A(x.row(m)[n]) - mean(m)) * rstd(m); };
    auto const slope = [&](index n) { return A(dy.row(m)[n]) * A(weight(n)); };
    double total = 0.0;    // the sum of slopes: the derivative by a shift of all x
    double product = 0.0;  // the sum of slope * normal: the derivative by a scaling of all x
    for (index n = 0; n < x.columns; ++n) {
      total += double(slope(n));
      product += double(slope(n)) * double(normal(n));
    }
    auto const shift = static_cast<A>(total / width);
    auto const stretch = static_cast<A>(product / width);
    for (index n = 0; n < x.columns; ++n) {
      A const gradient = rstd(m) * (slope(n) - shift - normal(n) * stretch);
      A const added = addend.rows > 0 ? A(addend.row(m)[n]) : A(0);
      dx.row(m)[n] = static_cast<T>(gradient + added);
    }
  }
};

struct layer_norm_backward_input_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> mean, vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {}) const {
    rows_view<T> const out(dx);
    auto constexpr name = "layer_norm_backward_input";
    detail::check_norm_rows<T>(name, out, dy, x, weight, rstd, addend);
    detail::require_equal(name, "the size of mean", mean.extent(0), "the number of rows", x.rows);
    run_operation(s,
                  layer_norm_backward_input_arguments<T>{out, dy, x, weight, mean, rstd, addend});
  }
};
/// layer_norm_backward_input(s, dx, dy, x, weight, mean, rstd, addend): with x^ = (x - mean) rstd
/// and g = dy weight, dx = rstd (g - mean(g) - x^ mean(g x^)), with means over a row, plus `addend`
/// [M,D] unless it is empty, rounded once; dx may be dy, and overlaps no other argument.
inline constexpr layer_norm_backward_input_fn layer_norm_backward_input{};

template <class T>
struct layer_norm_backward_weight_arguments {
  static constexpr char const* name = "layer_norm_backward_weight";
  vector_view<accumulate_t<T>> dweight;
  vector_view<accumulate_t<T>> dbias;
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<accumulate_t<T> const> mean;
  vector_view<accumulate_t<T> const> rstd;

  [[nodiscard]] auto operands() const {
    return std::tuple(updates(dweight), updates(dbias), dy, x, mean, rstd);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return (dbias.empty() ? 4U : 5U) * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.columns; }
  void compute(index n) const {
    using A = accumulate_t<T>;
    double product = 0.0;
    double total = 0.0;
    for (index m = 0; m < x.rows; ++m) {
      A const normal = (A(x.row(m)[n]) - mean(m)) * rstd(m);
      product += double(A(dy.row(m)[n])) * double(normal);
      total += double(dy.row(m)[n]);
    }
    if (!dweight.empty()) dweight(n) += static_cast<A>(product);
    if (!dbias.empty()) dbias(n) += static_cast<A>(total);
  }
};

struct layer_norm_backward_weight_fn {
  template <class Stream, class Dy, class T = typename Dy::value_type>
  void operator()(Stream& s, vector_view<accumulate_t<T>> dweight,
                  vector_view<accumulate_t<T>> dbias, Dy dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<accumulate_t<T> const> mean,
                  vector_view<accumulate_t<T> const> rstd) const {
    rows_view<T const> const gradient(dy);
    auto constexpr name = "layer_norm_backward_weight";
    detail::require_equal(name, "the number of rows of dy", gradient.rows, "that of x", x.rows);
    detail::require_equal(name, "the number of columns of dy", gradient.columns, "that of x",
                          x.columns);
    if (!dweight.empty())
      detail::require_equal(name, "the size of dweight", dweight.extent(0), "that of a row",
                            x.columns);
    if (!dbias.empty())
      detail::require_equal(name, "the size of dbias", dbias.extent(0), "that of a row", x.columns);
    detail::require_equal(name, "the size of mean", mean.extent(0), "the number of rows", x.rows);
    detail::require_equal(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
    run_operation(s,
                  layer_norm_backward_weight_arguments<T>{dweight, dbias, gradient, x, mean, rstd});
  }
};
/// layer_norm_backward_weight(s, dweight, dbias, dy, x, mean, rstd): dweight += sum over rows of dy
/// x^, dbias += sum over rows of dy. Either may be empty, when the parameter is absent or frozen.
/// The order of summation depends on the shape alone.
inline constexpr layer_norm_backward_weight_fn layer_norm_backward_weight{};

}  // namespace parallel::ops
