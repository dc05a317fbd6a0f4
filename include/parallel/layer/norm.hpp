// norm: each row is normalised, by one of two rules chosen at run time:
//   layer  y = (x - mean) / sqrt(variance + eps) * weight + bias   (Ba, Kiros, Hinton, 2016)
//   rms    y = x / sqrt(mean(x²) + eps) * weight                   (Zhang, Sennrich, 2019)
// With a weight_offset the factor is weight + weight_offset.
// Statistics are kept in the accumulation type. Where a device can (ops::sums_norm_gradients), the
// pass that computes the input's gradient also leaves partial sums, from which the weights'
// gradients are computed without a second read of the rows.
#pragma once

#include <cstdint>

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>
#include <parallel/ops/pointwise/bias.hpp>

namespace parallel {

/// Whether a row is centred before it is scaled (layer), or only scaled (rms).
enum class norm_rule : std::uint8_t { layer, rms };

/// Keeps x (a view) and two numbers a row, or one with rms. Between the halves of a backward pass
/// it also keeps dy (a view) and, for every 16 rows, one row of sums, or two with a bias.
template <class T>
struct norm {
  using element = T;
  static constexpr bool takes_divided_sequences = true;

  parameter<T, 1> weight;  ///< [width]
  parameter<T, 1> bias;    ///< [width], or absent; always absent with rms
  double eps = 1e-5;
  double weight_offset = 0;  ///< 1: rows are multiplied by 1 + weight (Gemma)
  norm_rule rule = norm_rule::layer;
  bool is_droppable = false;  ///< the result may be dropped and recomputed (dropped.hpp)

  struct saved {
    ops::rows_view<T const> x;
    ops::rows_view<T const> dy;
    vector_view<accumulate_t<T>> mean;  ///< [rows]; empty with rms
    vector_view<accumulate_t<T>> rstd;  ///< [rows]
    /// [runs of rows, width]; empty where no gradient is wanted
    matrix_view<accumulate_t<T>> weight_sums, bias_sums;
    bool dropped = false;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& state) const {
    auto y = c.template allocate<T, 2>(x.extents());
    forward_into(c, y, x, state);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    auto dx = c.template allocate<T, 2>(dy.extents());
    backward_input_into(c, dx, dy, state, summand);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (!weight.has_gradient() && !bias.has_gradient()) return;
    if constexpr (ops::sums_norm_gradients<Stream>) {
      if (weight.has_gradient())
        ops::add_bias_backward(c.stream, weight.gradient(), state.weight_sums);
      if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), state.bias_sums);
    } else if (rule == norm_rule::rms)
      ops::rms_norm_backward_weight(c.stream, weight.gradient(), state.dy, state.x, state.rstd);
    else
      ops::layer_norm_backward_weight(c.stream, weight.gradient(), bias.gradient(), state.dy,
                                      state.x, state.mean, state.rstd);
  }

  /// `forward` between rows that may be strided: columns of a packed [q | k | v].
  template <class Stream>
  void forward_into(context<Stream>& c, ops::rows_view<T> y, ops::rows_view<T const> x,
                    saved& state) const {
    save_input(c, x, state);
    apply(c, y, state);
  }
  /// The two halves of `forward`, for a result that is released before the saved state:
  /// `save_input` allocates, `apply` normalises.
  template <class Stream>
  void save_input(context<Stream>& c, ops::rows_view<T const> x, saved& state) const {
    state.x = x;
    state.rstd = c.template allocate<accumulate_t<T>, 1>({x.rows});
    if (rule != norm_rule::rms) state.mean = c.template allocate<accumulate_t<T>, 1>({x.rows});
  }
  template <class Stream>
  void apply(context<Stream>& c, ops::rows_view<T> y, saved const& state) const {
    if (rule == norm_rule::rms)
      ops::rms_norm(c.stream, y, state.rstd, state.x, weight.value(),
                    {.eps = eps, .weight_offset = weight_offset});
    else
      ops::layer_norm(c.stream, y, state.mean, state.rstd, state.x, weight.value(), bias.value(),
                      {.eps = eps, .weight_offset = weight_offset});
  }

  template <class Stream>
  void backward_input_into(context<Stream>& c, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                           saved& state, ops::rows_view<T const> summand = {}) const {
    save_gradient(c, dy, state);
    apply_backward(c, dx, state, summand);
  }
  /// The two halves of backward_input_into, for a dx that is released before the saved state. The
  /// sums are allocated on every device, so that one memory plan holds for all devices.
  template <class Stream>
  void save_gradient(context<Stream>& c, ops::rows_view<T const> dy, saved& state) const {
    state.dy = dy;
    if (!weight.has_gradient() && !bias.has_gradient()) return;
    shape<2> const sums{ops::norm_gradient_runs(dy.rows), dy.columns};
    state.weight_sums = c.template allocate<accumulate_t<T>, 2>(sums);
    if (bias.has_gradient()) state.bias_sums = c.template allocate<accumulate_t<T>, 2>(sums);
  }
  template <class Stream>
  void apply_backward(context<Stream>& c, ops::rows_view<T> dx, saved const& state,
                      ops::rows_view<T const> summand = {}) const {
    auto const& dy = state.dy;
    if constexpr (ops::sums_norm_gradients<Stream>)
      if (!state.weight_sums.empty())
        return ops::norm_gradients(c.stream, dx, state.weight_sums, state.bias_sums, dy, state.x,
                                   weight.value(), state.mean, state.rstd, summand, weight_offset);
    if (rule == norm_rule::rms)
      ops::rms_norm_backward_input(c.stream, dx, dy, state.x, weight.value(), state.rstd, summand,
                                   weight_offset);
    else
      ops::layer_norm_backward_input(c.stream, dx, dy, state.x, weight.value(), state.mean,
                                     state.rstd, summand, weight_offset);
  }

  void visit_parameters(auto&& visit) {
    if (weight.is_present()) visit(weight);
    if (bias.is_present()) visit(bias);
  }
};

}  // namespace parallel
