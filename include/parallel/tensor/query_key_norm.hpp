// Norms of queries and keys over all heads together, when the heads are divided over tensor ranks.
//
// Ranks exchange heads for rows: every rank receives all heads of 1/t of the rows, normalises those
// and sends the heads back. So the norm is the ordinary one, with its whole weight on every rank;
// since each rank has seen different rows, weight gradients are addends
// (region::replication_inside).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/layer/query_key_norm.hpp>
#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::tensor {

/// The values that neighbouring ranks hold for a head that they share.
enum class shared_head_values : std::uint8_t {
  copies,   // the same values
  addends,  // addends of a sum: gradients, since each rank used the head for different queries
};

namespace detail {

/// The matrix `number` of equal matrices stacked by rows, each of `rows` rows.
template <class T>
[[nodiscard]] matrix_view<T> block_of(matrix_view<T> blocks, int number, index rows) {
  return blocks.slice(number * rows, (number + 1) * rows);
}

[[nodiscard]] inline index rows_of_each(index rows, int ranks) {
  return (rows + ranks - 1) / ranks;
}

/// The widest columns of any rank: all ranks send blocks of this width, so that blocks are equal.
[[nodiscard]] inline index widest(std::span<row_range const> rank_columns) {
  return std::ranges::max(rank_columns, {}, &row_range::count).count;
}

/// The first `count` columns of a block.
template <class T>
[[nodiscard]] ops::rows_view<T> columns_of(matrix_view<T> block, index count) {
  return ops::rows_view<T>(block).slice_columns(0, count);
}

}  // namespace detail

/// From all R rows of this rank's heads, [R, w], to ceil(R/t) of the rows with all heads, in whole
/// width; surplus rows are zero. `rank_columns`: the columns of whole rows that each rank has,
/// which are the same for neighbours that hold the same heads. Sent per rank: (t-1)/t of R times
/// the widest w. Memory: two copies of that during the exchange.
template <class T, class Stream, class Comm>
[[nodiscard]] matrix_view<T> heads_to_rows(context<Stream>& c,
                                           axis_group<axis::tensor, Comm> const& ranks,
                                           ops::rows_view<T const> x,
                                           std::span<row_range const> rank_columns,
                                           shared_head_values kind) {
  int const n = ranks.size();
  index const rows = detail::rows_of_each(x.rows, n);
  index const widest = detail::widest(rank_columns);
  auto const whole_rows =
      c.template allocate<T, 2>({rows, rank_columns.back().begin + rank_columns.back().count});
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, widest});
  auto const received = c.template allocate<T, 2>(sent.extents());
  if (widest > x.columns) ops::fill(c.stream, sent.slice(0, x.rows).span(), T(0));
  ops::copy(c.stream, detail::columns_of(sent.slice(0, x.rows), x.columns), x);
  ops::fill(c.stream, sent.slice(x.rows, n * rows).span(), T(0));
  ranks.all_to_all(c.stream, received.span(), sent.span());
  for (int first = 0, next = 0; first < n; first = next) {
    auto const heads = detail::block_of(received, first, rows);
    auto const& own_columns = rank_columns[static_cast<std::size_t>(first)];
    for (next = first + 1; next < n; ++next) {  // the ranks with the same heads
      if (rank_columns[static_cast<std::size_t>(next)].begin != own_columns.begin) break;
      if (kind == shared_head_values::addends)
        ops::add(c.stream, heads.span(), detail::block_of(received, next, rows).span());
    }
    ops::copy(c.stream,
              ops::rows_view<T>(whole_rows)
                  .slice_columns(own_columns.begin, own_columns.begin + own_columns.count),
              ops::rows_view<T const>(detail::columns_of(heads, own_columns.count)));
  }
  return whole_rows;
}

/// The inverse of heads_to_rows: `y` becomes all rows of this rank's heads. Of a shared head every
/// neighbour gets a copy, or the first one gets the whole sum and the others get zeros.
template <class T, class Stream, class Comm>
void rows_to_heads(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                   ops::rows_view<T> y, std::type_identity_t<matrix_view<T const>> x,
                   std::span<row_range const> rank_columns, shared_head_values kind) {
  int const n = ranks.size();
  index const rows = x.extent(0);
  index const widest = detail::widest(rank_columns);
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, widest});
  auto const received = c.template allocate<T, 2>(sent.extents());
  for (int r = 0; r < n; ++r) {
    auto const heads = detail::block_of(sent, r, rows);
    auto const& columns = rank_columns[static_cast<std::size_t>(r)];
    bool const first =
        r == 0 || rank_columns[static_cast<std::size_t>(r) - 1].begin != columns.begin;
    bool const filled = first || kind == shared_head_values::copies;
    if (!filled || columns.count < widest) ops::fill(c.stream, heads.span(), T(0));
    if (filled)
      ops::copy(
          c.stream, detail::columns_of(heads, columns.count),
          ops::rows_view<T const>(x).slice_columns(columns.begin, columns.begin + columns.count));
  }
  ranks.all_to_all(c.stream, received.span(), sent.span());
  ops::copy(c.stream, y,
            ops::rows_view<T const>(detail::columns_of(received.slice(0, y.rows), y.columns)));
}

/// Without `ranks` it is the layer of one rank. Otherwise it keeps one copy of the packed rows and
/// one of q and k, and in the backward pass another one of their gradients. Sent per rank and pass:
/// twice (t-1)/t of q and k.
template <class T, class Comm>
struct query_key_norm {
  parallel::query_key_norm<T> inner;  ///< as wide as all heads, where heads are exchanged
  /// The ranks that hold the other heads of the same rows, for a norm over all heads; empty: the
  /// norm covers the local heads alone.
  axis_group<axis::tensor, Comm> ranks = {};
  /// The columns that each rank has of the rows of all queries and of all keys (slices.hpp).
  std::vector<row_range> queries = {}, keys = {};

  struct saved {
    typename parallel::query_key_norm<T>::saved inner;
    typename norm<T>::saved q, k;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, ops::head_layout const& layout,
                                       matrix_view<T> packed, saved& state) const {
    if (!exchanges()) return inner.forward(c, layout, packed, state.inner);
    auto const y = copy_of(c, packed);
    normalise(c, inner.q, layout.q(y), queries, state.q);
    if (layout.kv_heads > 0) normalise(c, inner.k, layout.k(y), keys, state.k);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, ops::head_layout const& layout,
                                              matrix_view<T> d_packed, saved& state) const {
    if (!exchanges()) return inner.backward_input(c, layout, d_packed, state.inner);
    auto const dx = copy_of(c, d_packed);
    backward(c, inner.q, layout.q(dx), queries, state.q);
    if (layout.kv_heads > 0) backward(c, inner.k, layout.k(dx), keys, state.k);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (!exchanges()) return inner.backward_weight(c, state.inner);
    inner.q.backward_weight(c, state.q);
    if (inner.k.weight.is_present()) inner.k.backward_weight(c, state.k);
  }

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }

 private:
  [[nodiscard]] bool exchanges() const { return inner.is_present() && !ranks.is_single_rank(); }

  template <class Stream>
  [[nodiscard]] static matrix_view<T> copy_of(context<Stream>& c, matrix_view<T const> x) {
    auto const y = c.template allocate<T, 2>(x.extents());
    ops::copy(c.stream, y.span(), x.span());
    return y;
  }

  /// Works in place, since the exchange copies the rows anyway.
  template <class Stream>
  void normalise(context<Stream>& c, norm<T> const& layer, ops::rows_view<T> x,
                 std::span<row_range const> rank_columns, typename norm<T>::saved& state) const {
    auto const kind = shared_head_values::copies;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, x, rank_columns, kind);
    layer.save_input(c, rows, state);
    arena::scope const temporaries(c.memory);
    auto const y = c.template allocate<T, 2>(rows.extents());
    layer.apply(c, y, state);
    rows_to_heads(c, ranks, x, y, rank_columns, kind);
  }
  template <class Stream>
  void backward(context<Stream>& c, norm<T> const& layer, ops::rows_view<T> dy,
                std::span<row_range const> rank_columns, typename norm<T>::saved& state) const {
    auto const kind = shared_head_values::addends;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, dy, rank_columns, kind);
    layer.save_gradient(c, rows, state);
    arena::scope const temporaries(c.memory);
    auto const dx = c.template allocate<T, 2>(rows.extents());
    layer.apply_backward(c, dx, state);
    rows_to_heads(c, ranks, dy, dx, rank_columns, kind);
  }
};

}  // namespace parallel::tensor
