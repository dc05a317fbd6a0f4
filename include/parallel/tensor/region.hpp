// region: the entry to and the exit from layers that hold slices of their parameters along the
// tensor axis (Shoeybi et al., "Megatron-LM", 2019; with `sequence` Korthikanti et al., 2022).
//
// Outside of regions every rank holds all rows, or with `sequence` an equal share of them, so that
// norms, dropout and residuals compute and keep nothing twice. Entering gathers the rows (or does
// nothing); leaving sums the ranks' addends (and scatters the rows); in the backward pass the two
// exchange roles. Bytes sent per rank and direction, for a whole activation of x bytes and t ranks:
// with `sequence` x(t-1)/t both on entering and on leaving; without, nothing and 2x(t-1)/t.
#pragma once

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/core/partial_values.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>

namespace parallel::tensor {

/// An addend of a sum over the tensor axis.
template <class T>
using addend = partial_sum<axis::tensor, T>;

/// This rank's columns of all rows: its heads, its hidden units.
template <class T>
using own_columns = column_slice<axis::tensor, T>;

template <class Comm>
struct region {
  axis_group<axis::tensor, Comm> group;
  bool sequence = false;  ///< ranks hold different rows between regions; t must divide their number
  bool overlap = true;    ///< row exchanges overlap with products, on the group's second stream

  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int size() const { return group.size(); }
  [[nodiscard]] bool is_single_rank() const { return group.is_single_rank(); }
  [[nodiscard]] bool divides_rows() const { return sequence && !is_single_rank(); }

  /// Whether linear layers exchange rows shard by shard, concurrently with products
  /// (overlapped.hpp).
  [[nodiscard]] bool overlaps() const { return overlap && divides_rows(); }

  /// The replication of parameters used between regions: every rank holds them, and their gradients
  /// are addends where each rank has seen different rows.
  [[nodiscard]] parameter_replication replication_outside() const {
    return {size(), divides_rows()};
  }
  /// The replication of parameters used whole inside regions: every rank uses them for its own
  /// heads.
  [[nodiscard]] parameter_replication replication_inside() const {
    return {size(), !is_single_rank()};
  }

  /// All rows of `x`.
  template <class Stream, class T>
  [[nodiscard]] matrix_view<T const> enter(context<Stream>& c, matrix_view<T const> x) const {
    if (!divides_rows()) return x;
    auto out = c.template allocate<T, 2>({x.extent(0) * size(), x.extent(1)});
    group.all_gather(c.stream, out.span(), x.span());
    return out;
  }

  /// This rank's rows of the sum of all ranks' addends.
  template <class Stream, class T>
  [[nodiscard]] matrix_view<T> leave(context<Stream>& c, addend<T> x) const {
    if (is_single_rank()) return x.addend;
    if (!sequence) {
      group.all_reduce(c.stream, x.addend.span());
      return x.addend;
    }
    index const rows = rows_outside(x.addend.extent(0));
    auto out = c.template allocate<T, 2>({rows, x.addend.extent(1)});
    group.reduce_scatter(c.stream, out.span(), std::span<T const>(x.addend.span()));
    return out;
  }

  /// The number of rows, of `rows` in total, that a rank holds between regions.
  [[nodiscard]] index rows_outside(index rows) const {
    if (!divides_rows()) return rows;
    require(rows % size() == 0, "sequence parallelism: ", rows,
            " rows of a microbatch cannot be shared out equally among ", size(), " tensor ranks");
    return rows / size();
  }
  /// The first of the rows that this rank holds between regions, for a model's share(batch).
  [[nodiscard]] index first_row_outside(index rows) const {
    return divides_rows() ? rank() * rows_outside(rows) : 0;
  }
};

}  // namespace parallel::tensor
