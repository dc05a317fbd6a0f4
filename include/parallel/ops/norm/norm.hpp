// layer_norm and rms_norm over rows, and their gradients.
//
// layer_norm: y = (x - mean) rstd * weight + bias, rstd = 1/sqrt(variance + eps) (Ba, Kiros,
// Hinton, 2016). The variance is the mean square around the mean, computed in a second pass, so
// that there is no cancellation. rms_norm: the same without the subtraction of the mean and without
// the bias, so rstd = 1/sqrt(mean(x^2) + eps) (Zhang, Sennrich, 2019). Where weights are stored
// less an offset (Gemma's are those of 1 + w), rows are multiplied by weight + offset.
//
// Both are one struct of arguments each, of which `Centred` says that the mean is subtracted. Rows
// need not be adjacent (rows_view): the q or k of a packed [q | k | v] is normalised without a
// copy. T is float, bf16 or double; mean, rstd and the gradients of parameters are accumulate_t<T>.
// Cost: each operation reads and writes memory once, since a row stays in cache.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops::detail {

/// Throws `error` unless dx, dy and x have the same shape, `weight` has one number per column and
/// `rstd` one per row, and `addend` has that shape or no rows.
template <class T>
void check_norm_rows(std::string_view name, rows_view<T> dx, rows_view<T const> dy,
                     rows_view<T const> x, vector_view<T const> weight,
                     vector_view<accumulate_t<T> const> rstd, rows_view<T const> addend) {
  require_equal(name, "the number of rows of dx", dx.rows, "that of dy", dy.rows);
  require_equal(name, "the number of rows of dx", dx.rows, "that of x", x.rows);
  require_equal(name, "the number of columns of dx", dx.columns, "that of dy", dy.columns);
  require_equal(name, "the number of columns of dx", dx.columns, "that of x", x.columns);
  require_equal(name, "the size of weight", weight.extent(0), "that of a row", x.columns);
  require_equal(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
  shape<2> const addend_extents{addend.rows, addend.columns};  // nvcc garbles braces inside a cast
  shape<2> const result_extents{dx.rows, dx.columns};
  static_cast<void>(has_addend(name, addend_extents, result_extents));
}

}  // namespace parallel::ops::detail

namespace parallel::ops {

/// The options of layer_norm and rms_norm.
struct norm_options {
  double eps = 1e-5;
  double weight_offset = 0.0;  ///< rows are multiplied by weight + weight_offset
};
using layer_norm_options = norm_options;
using rms_norm_options = norm_options;

/// Unless Centred, mean and bias are empty.
template <class T, bool Centred>
struct norm_arguments {
  static constexpr char const* name = Centred ? "layer_norm" : "rms_norm";
  rows_view<T> y;
  vector_view<accumulate_t<T>> mean;
  vector_view<accumulate_t<T>> rstd;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<T const> bias;
  norm_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, mean, rstd, x, weight, bias); }
  /// Eight operations per element: mean 1, variance 3, result 4. Or four: mean square 2, result 2.
  [[nodiscard]] std::uint64_t flops() const {
    return (Centred ? 8U : 4U) * static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    auto const width = static_cast<double>(x.columns);
    double center = 0.0;
    if constexpr (Centred) {
      double total = 0.0;
      for (index n = 0; n < x.columns; ++n) total += double(x.row(m)[n]);
      center = total / width;
    }
    double squares = 0.0;
    for (index n = 0; n < x.columns; ++n) {
      double const distance = double(x.row(m)[n]) - center;
      squares += distance * distance;
    }
    double const factor = 1.0 / std::sqrt(squares / width + options.eps);
    if (!mean.empty()) mean(m) = static_cast<A>(center);
    if (!rstd.empty()) rstd(m) = static_cast<A>(factor);
    auto const gain = [&](index n) { return A(weight(n)) + A(options.weight_offset); };
    for (index n = 0; n < x.columns; ++n) {
      auto const normal = static_cast<A>((double(x.row(m)[n]) - center) * factor);
      if constexpr (Centred) {
        A const shift = bias.empty() ? A(0) : A(bias(n));
        y.row(m)[n] = static_cast<T>(normal * gain(n) + shift);
      } else {
        y.row(m)[n] = static_cast<T>(normal * gain(n));
      }
    }
  }
};
template <class T>
using layer_norm_arguments = norm_arguments<T, true>;
template <class T>
using rms_norm_arguments = norm_arguments<T, false>;

/// Unless Centred, mean is empty.
template <class T, bool Centred>
struct norm_backward_input_arguments {
  static constexpr char const* name =
      Centred ? "layer_norm_backward_input" : "rms_norm_backward_input";
  rows_view<T> dx;
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<accumulate_t<T> const> mean;
  vector_view<accumulate_t<T> const> rstd;
  rows_view<T const> addend;
  double weight_offset = 0.0;

  [[nodiscard]] auto operands() const { return std::tuple(dx, dy, x, weight, mean, rstd, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return ((Centred ? 12U : 8U) + (addend.rows > 0 ? 1U : 0U)) *
           static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.rows; }
  void compute(index m) const {
    using A = accumulate_t<T>;
    auto const width = static_cast<double>(x.columns);
    A center = 0;
    if constexpr (Centred) center = mean(m);
    auto const normal = [&](index n) { return (A(x.row(m)[n]) - center) * rstd(m); };
    auto const slope = [&](index n) { return A(dy.row(m)[n]) * (A(weight(n)) + A(weight_offset)); };
    double total = 0.0;    // the sum of slopes: the derivative by a shift of all x
    double product = 0.0;  // the sum of slope * normal: the derivative by a scaling of all x
    for (index n = 0; n < x.columns; ++n) {
      if constexpr (Centred) total += double(slope(n));
      product += double(slope(n)) * double(normal(n));
    }
    A const shift = Centred ? static_cast<A>(total / width) : A(0);
    auto const stretch = static_cast<A>(product / width);
    for (index n = 0; n < x.columns; ++n) {
      A const gradient = rstd(m) * (slope(n) - shift - normal(n) * stretch);
      A const added = addend.rows > 0 ? A(addend.row(m)[n]) : A(0);
      dx.row(m)[n] = static_cast<T>(gradient + added);
    }
  }
};
template <class T>
using layer_norm_backward_input_arguments = norm_backward_input_arguments<T, true>;
template <class T>
using rms_norm_backward_input_arguments = norm_backward_input_arguments<T, false>;

/// Unless Centred, dbias and mean are empty.
template <class T, bool Centred>
struct norm_backward_weight_arguments {
  static constexpr char const* name =
      Centred ? "layer_norm_backward_weight" : "rms_norm_backward_weight";
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
    return ((Centred ? 4U : 3U) + (dbias.empty() ? 0U : 1U)) *
           static_cast<std::uint64_t>(x.rows * x.columns);
  }
  [[nodiscard]] index parts() const { return x.columns; }
  void compute(index n) const {
    using A = accumulate_t<T>;
    double product = 0.0;
    double total = 0.0;
    for (index m = 0; m < x.rows; ++m) {
      A center = 0;
      if constexpr (Centred) center = mean(m);
      A const normal = (A(x.row(m)[n]) - center) * rstd(m);
      product += double(A(dy.row(m)[n])) * double(normal);
      total += double(dy.row(m)[n]);
    }
    if (!dweight.empty()) dweight(n) += static_cast<A>(product);
    if (!dbias.empty()) dbias(n) += static_cast<A>(total);
  }
};
template <class T>
using layer_norm_backward_weight_arguments = norm_backward_weight_arguments<T, true>;
template <class T>
using rms_norm_backward_weight_arguments = norm_backward_weight_arguments<T, false>;

namespace detail {

/// Checks the shapes of the arguments and runs the operation.
template <class Stream, class T, bool Centred>
void run_norm(Stream& s, norm_arguments<T, Centred> const& a) {
  auto const require_size = [&](char const* what, index size) {
    require_equal(a.name, what, size, "that of a row", a.x.columns);
  };
  require_equal(a.name, "the number of rows of y", a.y.rows, "that of x", a.x.rows);
  require_equal(a.name, "the number of columns of y", a.y.columns, "that of x", a.x.columns);
  require_size("the size of weight", a.weight.extent(0));
  if (Centred)
    require_equal(a.name, "the size of mean", a.mean.extent(0), "that of rstd", a.rstd.extent(0));
  if (!a.rstd.empty())
    require_equal(a.name, Centred ? "the size of mean" : "the size of rstd", a.rstd.extent(0),
                  "the number of rows", a.x.rows);
  if (!a.bias.empty()) require_size("the size of bias", a.bias.extent(0));
  run_operation(s, a);
}

template <class Stream, class T, bool Centred>
void run_norm(Stream& s, norm_backward_input_arguments<T, Centred> const& a) {
  check_norm_rows<T>(a.name, a.dx, a.dy, a.x, a.weight, a.rstd, a.addend);
  if (Centred)
    require_equal(a.name, "the size of mean", a.mean.extent(0), "the number of rows", a.x.rows);
  run_operation(s, a);
}

template <class Stream, class T, bool Centred>
void run_norm(Stream& s, norm_backward_weight_arguments<T, Centred> const& a) {
  auto const require_size = [&](char const* what, index size) {
    require_equal(a.name, what, size, "that of a row", a.x.columns);
  };
  require_equal(a.name, "the number of rows of dy", a.dy.rows, "that of x", a.x.rows);
  require_equal(a.name, "the number of columns of dy", a.dy.columns, "that of x", a.x.columns);
  if (!Centred || !a.dweight.empty()) require_size("the size of dweight", a.dweight.extent(0));
  if (!a.dbias.empty()) require_size("the size of dbias", a.dbias.extent(0));
  if (Centred)
    require_equal(a.name, "the size of mean", a.mean.extent(0), "the number of rows", a.x.rows);
  require_equal(a.name, "the size of rstd", a.rstd.extent(0), "the number of rows", a.x.rows);
  run_operation(s, a);
}

}  // namespace detail

struct layer_norm_fn {
  template <class Stream, class Y, class T = typename Y::value_type>
  void operator()(Stream& s, Y y, vector_view<accumulate_t<T>> mean,
                  vector_view<accumulate_t<T>> rstd, rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<std::type_identity_t<T> const> bias,
                  layer_norm_options options = {}) const {
    detail::run_norm(
        s, layer_norm_arguments<T>{rows_view<T>(y), mean, rstd, x, weight, bias, options});
  }
};
/// layer_norm(s, y, mean, rstd, x, weight, bias, {.eps, .weight_offset}): x, y [M,D] (matrix_view
/// or rows_view; y may be x), weight [D], bias [D] or empty; mean, rstd [M] for the backward pass,
/// or both empty.
inline constexpr layer_norm_fn layer_norm{};

struct layer_norm_backward_input_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> mean, vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {},
                  double weight_offset = 0.0) const {
    detail::run_norm(s, layer_norm_backward_input_arguments<T>{rows_view<T>(dx), dy, x, weight,
                                                               mean, rstd, addend, weight_offset});
  }
};
/// layer_norm_backward_input(s, dx, dy, x, weight, mean, rstd, addend, weight_offset): with
/// x^ = (x - mean) rstd and g = dy (weight + weight_offset), dx = rstd (g - mean(g) - x^ mean(g
/// x^)), with means over a row, plus `addend` [M,D] unless it is empty, rounded once; dx may be dy,
/// and overlaps no other argument.
inline constexpr layer_norm_backward_input_fn layer_norm_backward_input{};

struct layer_norm_backward_weight_fn {
  template <class Stream, class Dy, class T = typename Dy::value_type>
  void operator()(Stream& s, vector_view<accumulate_t<T>> dweight,
                  vector_view<accumulate_t<T>> dbias, Dy dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<accumulate_t<T> const> mean,
                  vector_view<accumulate_t<T> const> rstd) const {
    detail::run_norm(s, layer_norm_backward_weight_arguments<T>{
                            dweight, dbias, rows_view<T const>(dy), x, mean, rstd});
  }
};
/// layer_norm_backward_weight(s, dweight, dbias, dy, x, mean, rstd): dweight += sum over rows of dy
/// x^, dbias += sum over rows of dy. Either may be empty, when the parameter is absent or frozen.
/// The order of summation depends on the shape alone.
inline constexpr layer_norm_backward_weight_fn layer_norm_backward_weight{};

struct rms_norm_fn {
  template <class Stream, class Y, class T = typename Y::value_type>
  void operator()(Stream& s, Y y, vector_view<accumulate_t<T>> rstd,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  rms_norm_options options = {}) const {
    detail::run_norm(s, rms_norm_arguments<T>{rows_view<T>(y), {}, rstd, x, weight, {}, options});
  }
};
/// rms_norm(s, y, rstd, x, weight, {.eps, .weight_offset}): x, y [M,D] (matrix_view or rows_view; y
/// may be x), weight [D]; rstd [M] for the backward pass, or empty.
inline constexpr rms_norm_fn rms_norm{};

struct rms_norm_backward_input_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {},
                  double weight_offset = 0.0) const {
    detail::run_norm(s, rms_norm_backward_input_arguments<T>{
                            rows_view<T>(dx), dy, x, weight, {}, rstd, addend, weight_offset});
  }
};
/// rms_norm_backward_input(s, dx, dy, x, weight, rstd, addend, weight_offset): with x^ = x rstd and
/// g = dy (weight + weight_offset),
/// dx = rstd (g - x^ mean(g x^)), with the mean over a row, plus `addend` [M,D] unless it is empty,
/// rounded once; dx may be dy, and overlaps no other argument.
inline constexpr rms_norm_backward_input_fn rms_norm_backward_input{};

struct rms_norm_backward_weight_fn {
  template <class Stream, class Dy, class T = typename Dy::value_type>
  void operator()(Stream& s, vector_view<accumulate_t<T>> dweight, Dy dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<accumulate_t<T> const> rstd) const {
    detail::run_norm(
        s, rms_norm_backward_weight_arguments<T>{dweight, {}, rows_view<T const>(dy), x, {}, rstd});
  }
};
/// rms_norm_backward_weight(s, dweight, dy, x, rstd): dweight += sum over rows of dy x^. The order
/// of summation depends on the shape alone.
inline constexpr rms_norm_backward_weight_fn rms_norm_backward_weight{};

}  // namespace parallel::ops
