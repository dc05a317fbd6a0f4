// column_linear and row_linear: the linear layers at the two ends of a tensor region
// (ColumnParallelLinear and RowParallelLinear of Shoeybi et al., "Megatron-LM", 2019), each
// together with its exchange. Between them a rank has some columns, which a layer that needs all
// columns does not take:
//
//   residual(sequential(norm, column_linear, activation, row_linear))   compiles
//   residual(sequential(norm, column_linear, activation, linear))       does not
//
// With region::overlap rows are exchanged shard by shard, concurrently with the product; in the
// backward pass the two layers exchange roles.
#pragma once

#include <parallel/layer/linear.hpp>
#include <parallel/tensor/overlapped.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

/// Some of the outputs of a linear layer (rows of its weights) for all rows of x. Keeps all rows of
/// x and dy.
template <class T, class Comm>
struct column_linear {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  struct saved : linear<T>::saved {
    matrix_view<T> gathered;  ///< all rows of x, where ranks hold different rows
  };

  region<Comm> tensor_region;
  linear<T> inner;

  template <class Stream>
  [[nodiscard]] own_columns<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& state) const {
    save_input(c, x, state);
    auto const y = c.template allocate<T, 2>({state.x.extent(0), inner.weight.extents[0]});
    apply(c, y, x, state);
    return {y};
  }
  /// As linear; from `apply` on state.x is all rows of x, also for other layers that take them.
  template <class Stream>
  void save_input(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    if (tensor_region.divides_rows()) {
      state.gathered = c.template allocate<T, 2>({x.extent(0) * tensor_region.size(), x.extent(1)});
      x = state.gathered;
    }
    inner.save_input(c, x, state);
  }
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& state) const {
    if (!tensor_region.overlaps()) {
      if (tensor_region.divides_rows())
        tensor_region.group.all_gather(c.stream, state.gathered.span(), x.span());
      return inner.apply(c, y, state.x, state);
    }
    all_gather_matmul(c, tensor_region.group, own_columns<T>{y}, state.gathered, x,
                      inner.weight.value(), {.transpose_b = true});
    arena::scope const temporaries(c.memory);
    add_bias_onto(c, y, inner.bias, inner.adapter.forward(c, state.x, state.adapter, {}));
  }

  /// `summand`, of all rows: the gradient of x through other layers that read x, of which each rank
  /// has an addend too.
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, own_columns<T const> dy,
                                              saved& state, addend<T const> summand = {}) const {
    if (!tensor_region.overlaps())
      return tensor_region.leave(
          c, addend<T>{inner.backward_input(c, dy.columns, state, summand.addend)});
    state.dy = dy.columns;
    inner.adapter.allocate_hidden_gradient(c, dy.columns.extent(0), state.adapter);
    summand.addend = inner.adapter.backward_input(c, dy.columns, state.adapter, summand.addend);
    return matmul_reduce_scatter(c, tensor_region.group, dy, inner.weight.value(), {}, summand);
  }

  /// As linear::restore_input; gathered rows are kept.
  void restore_input(saved& state, matrix_view<T const> x) const {
    if (!tensor_region.divides_rows()) inner.restore_input(state, x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    inner.backward_weight(c, state);
  }
  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

/// Some of the inputs of a linear layer (columns of its weights): this rank's rows of the sum over
/// ranks, plus a bias that is added once. Keeps x and all rows of dy.
template <class T, class Comm>
struct row_linear {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  struct saved {
    typename linear<T>::saved inner;
    matrix_view<T const> dy;  ///< of the local rows
  };

  region<Comm> tensor_region;
  linear<T> inner;       ///< without a bias
  parameter<T, 1> bias;  ///< [width], or absent

  /// `summand`, of this rank's rows, counts once: a single rank adds it in the product, several
  /// ranks add it to the sum; with the bias where there is one.
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, own_columns<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    if (tensor_region.is_single_rank()) {
      inner.save_input(c, x.columns, state.inner);
      auto const y = c.template allocate<T, 2>({x.columns.extent(0), inner.weight.extents[0]});
      inner.apply(c, y, x.columns, state.inner, summand, bias);
      return tensor_region.leave(c, addend<T>{y});
    }
    auto const y = sum_over_ranks(c, x, state);
    add_bias_onto(c, y, bias, summand);
    return y;
  }

  template <class Stream>
  [[nodiscard]] own_columns<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state) const {
    state.dy = dy;
    if (!tensor_region.overlaps())
      return {inner.backward_input(c, tensor_region.enter(c, dy), state.inner)};
    index const rows = dy.extent(0) * tensor_region.size();
    auto const gathered = c.template allocate<T, 2>({rows, dy.extent(1)});
    own_columns<T> const dx{c.template allocate<T, 2>({rows, inner.weight.extents[1]})};
    all_gather_matmul(c, tensor_region.group, dx, gathered, dy, inner.weight.value());
    state.inner.dy = gathered;
    inner.adapter.allocate_hidden_gradient(c, rows, state.inner.adapter);
    arena::scope const temporaries(c.memory);
    auto const adapter_gradient =
        inner.adapter.backward_input(c, gathered, state.inner.adapter, {});
    if (adapter_gradient.size() > 0) ops::add(c.stream, dx.columns.span(), adapter_gradient.span());
    return dx;
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    inner.restore_input(state.inner, x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (tensor_region.is_single_rank()) return inner.backward_weight(c, state.inner, bias);
    inner.backward_weight(c, state.inner);
    if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), state.dy);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(inner, visit);
    if (bias.is_present()) visit(bias);
  }

 private:
  template <class Stream>
  [[nodiscard]] matrix_view<T> sum_over_ranks(context<Stream>& c, own_columns<T const> x,
                                              saved& state) const {
    if (!tensor_region.overlaps())
      return tensor_region.leave(c, addend<T>{inner.forward(c, x.columns, state.inner)});
    inner.save_input(c, x.columns, state.inner);
    addend<T const> const adapter_addend{
        inner.adapter.forward(c, x.columns, state.inner.adapter, {})};
    return matmul_reduce_scatter(c, tensor_region.group, x, inner.weight.value(),
                                 {.transpose_b = true}, adapter_addend);
  }
};

}  // namespace parallel::tensor
