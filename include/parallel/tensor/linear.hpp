// column_linear and row_linear: the linear layers at the two ends of a region (ColumnParallelLinear
// and RowParallelLinear of Shoeybi et al., "Megatron-LM", 2019), each in one with its exchange.
// Between them there are columns, which nothing takes that needs all of them:
//
//   residual(sequential(norm, column_linear, activation, row_linear))   compiles
//   residual(sequential(norm, column_linear, activation, linear))       does not
//
// With region::overlap rows are exchanged shard by shard, behind the product; backwards the two
// layers change places.
#pragma once

#include <parallel/layer/linear.hpp>
#include <parallel/tensor/overlapped.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

/// Some of the outputs of a linear layer, rows of its weights, for all rows of x. Keeps all rows of
/// x and dy.
template <class T, class Comm>
struct column_linear {
  using element = T;
  struct saved : linear<T>::saved {
    matrix_view<T> gathered;  // x, when its rows are divided
  };

  region<Comm> of;
  linear<T> inner;

  template <class Stream>
  [[nodiscard]] own_columns<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    keep(c, x, kept);
    auto const y = c.template allocate<T, 2>({kept.x.extent(0), inner.weight.extents[0]});
    apply(c, y, x, kept);
    return {y};
  }
  /// As of linear; from apply on kept.x is all rows of x, also for other layers that take them.
  template <class Stream>
  void keep(context<Stream>& c, matrix_view<T const> x, saved& kept) const {
    if (of.divides_rows()) {
      kept.gathered = c.template allocate<T, 2>({x.extent(0) * of.size(), x.extent(1)});
      x = kept.gathered;
    }
    inner.keep(c, x, kept);
  }
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& kept) const {
    if (!of.overlaps()) {
      if (of.divides_rows()) of.group.all_gather(c.stream, kept.gathered.span(), x.span());
      return inner.apply(c, y, kept.x, kept);
    }
    all_gather_matmul(c, of.group, own_columns<T>{y}, kept.gathered, x, inner.weight.value(),
                      {.transpose_b = true});
    arena::scope const temporaries(c.memory);
    add_bias_onto(c, y, inner.bias, inner.adapter.forward(c, kept.x, kept.adapter, {}));
  }

  /// `more`, of all rows: what x gets through others that it goes to, of which each rank has an
  /// addend too.
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, own_columns<T const> dy,
                                              saved& kept, addend<T const> more = {}) const {
    if (!of.overlaps())
      return of.leave(c, addend<T>{inner.backward_input(c, dy.columns, kept, more.addend)});
    kept.dy = dy.columns;
    inner.adapter.keep_backward(c, dy.columns.extent(0), kept.adapter);
    more.addend = inner.adapter.backward_input(c, dy.columns, kept.adapter, more.addend);
    return matmul_reduce_scatter(c, of.group, dy, inner.weight.value(), {}, more);
  }

  /// As of linear; gathered rows were kept.
  void input_again(saved& kept, matrix_view<T const> x) const {
    if (!of.divides_rows()) inner.input_again(kept, x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    inner.backward_weight(c, kept);
  }
  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }
};

/// Some of the inputs of a linear layer, columns of its weights; the sum over ranks of this rank's
/// rows, plus a bias, which is added once. Keeps x and all rows of dy.
template <class T, class Comm>
struct row_linear {
  using element = T;
  struct saved {
    typename linear<T>::saved inner;
    matrix_view<T const> dy;  // of the rows here
  };

  region<Comm> of;
  linear<T> inner;       // without a bias
  parameter<T, 1> bias;  // [width], or absent

  /// `onto`, of this rank's rows, counts once: it is added in the product of a rank that is alone,
  /// else to the sum; with the bias where there is one.
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, own_columns<T const> x, saved& kept,
                                       matrix_view<T const> onto = {}) const {
    if (of.is_single_rank()) {
      inner.keep(c, x.columns, kept.inner);
      auto const y = c.template allocate<T, 2>({x.columns.extent(0), inner.weight.extents[0]});
      inner.apply(c, y, x.columns, kept.inner, onto, bias);
      return of.leave(c, addend<T>{y});
    }
    auto const y = reduced(c, x, kept);
    add_bias_onto(c, y, bias, onto);
    return y;
  }

  template <class Stream>
  [[nodiscard]] own_columns<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    kept.dy = dy;
    if (!of.overlaps()) return {inner.backward_input(c, of.enter(c, dy), kept.inner)};
    index const rows = dy.extent(0) * of.size();
    auto const all = c.template allocate<T, 2>({rows, dy.extent(1)});
    own_columns<T> const dx{c.template allocate<T, 2>({rows, inner.weight.extents[1]})};
    all_gather_matmul(c, of.group, dx, all, dy, inner.weight.value());
    kept.inner.dy = all;
    inner.adapter.keep_backward(c, rows, kept.inner.adapter);
    arena::scope const temporaries(c.memory);
    auto const more = inner.adapter.backward_input(c, all, kept.inner.adapter, {});
    if (more.size() > 0) ops::add(c.stream, dx.columns.span(), more.span());
    return dx;
  }

  /// As of linear.
  void input_again(saved& kept, matrix_view<T const> x) const { inner.input_again(kept.inner, x); }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (of.is_single_rank()) return inner.backward_weight(c, kept.inner, bias);
    inner.backward_weight(c, kept.inner);
    if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), kept.dy);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(inner, visit);
    if (bias.present()) visit(bias);
  }

 private:
  template <class Stream>
  [[nodiscard]] matrix_view<T> reduced(context<Stream>& c, own_columns<T const> x,
                                       saved& kept) const {
    if (!of.overlaps()) return of.leave(c, addend<T>{inner.forward(c, x.columns, kept.inner)});
    inner.keep(c, x.columns, kept.inner);
    addend<T const> const more{inner.adapter.forward(c, x.columns, kept.inner.adapter, {})};
    return matmul_reduce_scatter(c, of.group, x, inner.weight.value(), {.transpose_b = true}, more);
  }
};

}  // namespace parallel::tensor
