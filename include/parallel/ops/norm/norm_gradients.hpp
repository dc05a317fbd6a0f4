// norm_gradients: the gradient of the input of layer_norm or rms_norm and, from the same reading of
// x and dy, partial sums of the gradients of its weight and bias: one row of sums for each run of
// rows. add_bias_backward adds these rows later, when the gradients of the weights are needed.
//
// This is for devices on which memory bandwidth is the cost (sums_norm_gradients):
// layer_norm_backward_input and layer_norm_backward_weight read x and dy once each. T is float,
// bf16 or double; sums are accumulate_t<T>. Cost: one pass over memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include <parallel/ops/norm/norm.hpp>

namespace parallel::ops {

/// Whether layers compute the gradients of norms by norm_gradients on streams of this kind.
template <class Stream>
inline constexpr bool sums_norm_gradients = false;

/// The number of runs of rows, each of which gives one row of sums. A run has 16 rows or more;
/// there are at most 6 runs for each of the 132 multiprocessors of an H100 or H200. All these run
/// at once, so no multiprocessor gets more runs than another.
[[nodiscard]] constexpr index norm_gradient_runs(index rows) {
  return std::min<index>((rows + 15) / 16, index{6} * 132);
}

template <class T>
struct norm_gradients_arguments {
  static constexpr char const* name = "norm_gradients";
  rows_view<T> dx;
  matrix_view<accumulate_t<T>> weight_sums;
  matrix_view<accumulate_t<T>> bias_sums;  ///< or empty
  rows_view<T const> dy;
  rows_view<T const> x;
  vector_view<T const> weight;
  vector_view<accumulate_t<T> const> mean;  ///< empty: the norm is rms_norm
  vector_view<accumulate_t<T> const> rstd;
  rows_view<T const> addend;
  double weight_offset = 0.0;

  [[nodiscard]] auto operands() const {
    return std::tuple(dx, weight_sums, bias_sums, dy, x, weight, mean, rstd, addend);
  }
  [[nodiscard]] std::uint64_t flops() const {
    unsigned const per_element = (mean.empty() ? 11U : 16U) + (bias_sums.empty() ? 0U : 1U);
    return (addend.rows > 0 ? per_element + 1 : per_element) *
           static_cast<std::uint64_t>(x.rows * x.columns);
  }
  /// The first row of a run.
  [[nodiscard]] index begin_of(index run) const { return x.rows * run / weight_sums.extent(0); }

  [[nodiscard]] index parts() const { return weight_sums.extent(0); }
  void compute(index run) const {
    using A = accumulate_t<T>;
    index const begin = begin_of(run), end = begin_of(run + 1);
    for (index n = 0; n < x.columns; ++n) {  // first: dx may be dy
      double product = 0.0, total = 0.0;
      for (index m = begin; m < end; ++m) {
        A const center = mean.empty() ? A(0) : mean(m);
        product += double(A(dy.row(m)[n])) * double((A(x.row(m)[n]) - center) * rstd(m));
        total += double(dy.row(m)[n]);
      }
      weight_sums(run, n) = static_cast<A>(product);
      if (!bias_sums.empty()) bias_sums(run, n) = static_cast<A>(total);
    }
    for (index m = begin; m < end; ++m)
      if (mean.empty())
        rms_norm_backward_input_arguments<T>{dx, dy, x, weight, {}, rstd, addend, weight_offset}
            .compute(m);
      else
        layer_norm_backward_input_arguments<T>{dx, dy, x, weight, mean, rstd, addend, weight_offset}
            .compute(m);
  }
};

struct norm_gradients_fn {
  template <class Stream, class Dx, class T = typename Dx::value_type>
  void operator()(Stream& s, Dx dx, matrix_view<accumulate_t<T>> weight_sums,
                  matrix_view<accumulate_t<T>> bias_sums,
                  rows_view<std::type_identity_t<T> const> dy,
                  rows_view<std::type_identity_t<T> const> x,
                  vector_view<std::type_identity_t<T> const> weight,
                  vector_view<accumulate_t<T> const> mean, vector_view<accumulate_t<T> const> rstd,
                  rows_view<std::type_identity_t<T> const> addend = {},
                  double weight_offset = 0.0) const {
    rows_view<T> const out(dx);
    auto constexpr name = "norm_gradients";
    detail::check_norm_rows<T>(name, out, dy, x, weight, rstd, addend);
    if (!mean.empty())
      detail::require_equal(name, "the size of mean", mean.extent(0), "the number of rows", x.rows);
    auto const check_sums = [&](auto const& sums) {
      detail::require_equal(name, "the number of rows of sums", sums.extent(0), "that of runs",
                            norm_gradient_runs(x.rows));
      detail::require_equal(name, "the number of columns of sums", sums.extent(1), "that of x",
                            x.columns);
    };
    check_sums(weight_sums);
    if (!bias_sums.empty()) check_sums(bias_sums);
    require(bias_sums.empty() || !mean.empty(),
            "ops::norm_gradients: there are bias_sums but no mean, and rms_norm has no bias");
    run_operation(s, norm_gradients_arguments<T>{out, weight_sums, bias_sums, dy, x, weight, mean,
                                                 rstd, addend, weight_offset});
  }
};
/// norm_gradients(s, dx, weight_sums, bias_sums, dy, x, weight, mean, rstd, addend, weight_offset):
/// dx is that of layer_norm_backward_input, or of rms_norm_backward_input if mean is empty. For run
/// r of norm_gradient_runs(M) runs of about equal size, weight_sums[r,:] = the sum over its rows of
/// dy x^, and bias_sums[r,:] = the sum of dy, unless bias_sums is empty. dx may be dy, and overlaps
/// no other argument. The order of summation depends on the shape alone.
inline constexpr norm_gradients_fn norm_gradients{};

}  // namespace parallel::ops
