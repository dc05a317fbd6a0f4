// norm: rows are divided by their size, by one of two rules chosen at run time:
//   layer  y = (x - mean) / sqrt(variance + eps) * weight + bias   (Ba, Kiros, Hinton, 2016)
//   rms    y = x / sqrt(mean(x²) + eps) * weight                   (Zhang, Sennrich, 2019)
// Statistics are kept in the accumulation type. Where a device can (ops::sums_norm_gradients), the
// pass of the input's gradient leaves sums, of which the weights' gradients are made without
// reading rows again.
#pragma once

#include <cstdint>

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/bias.hpp>
#include <parallel/ops/layer_norm.hpp>
#include <parallel/ops/norm_gradients.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel {

enum class norm_rule : std::uint8_t { layer, rms };

/// Keeps x (a view) and two numbers a row, or one with rms; between the halves of a backward pass
/// dy (a view) and, for 16 rows, one of sums, or two with a bias.
template <class T>
struct norm {
  using element = T;

  parameter<T, 1> weight;  // [width]
  parameter<T, 1> bias;    // [width], or absent; always absent with rms
  double eps = 1e-5;
  norm_rule rule = norm_rule::layer;
  bool again = false;  // the result may be dropped, and made again (dropped.hpp)

  struct saved {
    ops::rows_view<T const> x;
    ops::rows_view<T const> dy;
    vector_view<accumulate_t<T>> mean;  // [rows]; empty with rms
    vector_view<accumulate_t<T>> rstd;  // [rows]
    // [runs of rows, width]; empty: nobody asks for the gradient
    matrix_view<accumulate_t<T>> weight_sums, bias_sums;
    bool dropped = false;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    auto y = c.template allocate<T, 2>(x.extents());
    forward_into(c, y, x, kept);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept, matrix_view<T const> onto = {}) const {
    auto dx = c.template allocate<T, 2>(dy.extents());
    backward_input_into(c, dx, dy, kept, onto);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (!weight.has_gradient() && !bias.has_gradient()) return;
    if constexpr (ops::sums_norm_gradients<Stream>) {
      if (weight.has_gradient())
        ops::add_bias_backward(c.stream, weight.gradient(), kept.weight_sums);
      if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), kept.bias_sums);
    } else if (rule == norm_rule::rms)
      ops::rms_norm_backward_weight(c.stream, weight.gradient(), kept.dy, kept.x, kept.rstd);
    else
      ops::layer_norm_backward_weight(c.stream, weight.gradient(), bias.gradient(), kept.dy, kept.x,
                                      kept.mean, kept.rstd);
  }

  /// `forward` between rows that may lie apart: columns of a packed [q | k | v].
  template <class Stream>
  void forward_into(context<Stream>& c, ops::rows_view<T> y, ops::rows_view<T const> x,
                    saved& kept) const {
    keep(c, x, kept);
    apply(c, y, kept);
  }
  /// The two halves of `forward`, for a result that is released before what is kept: allocation,
  /// then the norm.
  template <class Stream>
  void keep(context<Stream>& c, ops::rows_view<T const> x, saved& kept) const {
    kept.x = x;
    kept.rstd = c.template allocate<accumulate_t<T>, 1>({x.rows});
    if (rule != norm_rule::rms) kept.mean = c.template allocate<accumulate_t<T>, 1>({x.rows});
  }
  template <class Stream>
  void apply(context<Stream>& c, ops::rows_view<T> y, saved const& kept) const {
    if (rule == norm_rule::rms)
      ops::rms_norm(c.stream, y, kept.rstd, kept.x, weight.value(), {.eps = eps});
    else
      ops::layer_norm(c.stream, y, kept.mean, kept.rstd, kept.x, weight.value(), bias.value(),
                      {.eps = eps});
  }

  template <class Stream>
  void backward_input_into(context<Stream>& c, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                           saved& kept, ops::rows_view<T const> onto = {}) const {
    keep_backward(c, dy, kept);
    apply_backward(c, dx, kept, onto);
  }
  /// The two halves of that, for a dx that is released before what is kept. Sums have their place
  /// on every device, so that a plan of memory holds for any.
  template <class Stream>
  void keep_backward(context<Stream>& c, ops::rows_view<T const> dy, saved& kept) const {
    kept.dy = dy;
    if (!weight.has_gradient() && !bias.has_gradient()) return;
    shape<2> const sums{ops::norm_gradient_runs(dy.rows), dy.columns};
    kept.weight_sums = c.template allocate<accumulate_t<T>, 2>(sums);
    if (bias.has_gradient()) kept.bias_sums = c.template allocate<accumulate_t<T>, 2>(sums);
  }
  template <class Stream>
  void apply_backward(context<Stream>& c, ops::rows_view<T> dx, saved const& kept,
                      ops::rows_view<T const> onto = {}) const {
    auto const& dy = kept.dy;
    if constexpr (ops::sums_norm_gradients<Stream>)
      if (!kept.weight_sums.empty())
        return ops::norm_gradients(c.stream, dx, kept.weight_sums, kept.bias_sums, dy, kept.x,
                                   weight.value(), kept.mean, kept.rstd, onto);
    if (rule == norm_rule::rms)
      ops::rms_norm_backward_input(c.stream, dx, dy, kept.x, weight.value(), kept.rstd, onto);
    else
      ops::layer_norm_backward_input(c.stream, dx, dy, kept.x, weight.value(), kept.mean, kept.rstd,
                                     onto);
  }

  void visit_parameters(auto&& visit) {
    visit(weight);
    if (bias.present()) visit(bias);
  }
};

}  // namespace parallel
