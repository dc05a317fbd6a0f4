// Norms of queries and keys over all heads together, when the heads are divided over tensor ranks.
//
// Heads are exchanged for rows: every rank gets all heads of 1/t of the rows, normalises those, and
// gives the heads back. So the norm is the ordinary one, with its whole weight on every rank; as
// each saw other rows, weight gradients are addends (region::replication_inside).
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
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::tensor {

/// What neighbours that hold the same head have of it.
enum class of_shared_heads : std::uint8_t {
  copies,   // the same numbers
  addends,  // of their sum: gradients, since each used the head for other queries
};

namespace detail {

/// The i-th of equal matrices one below the other, each of `rows` rows.
template <class T>
[[nodiscard]] matrix_view<T> block_of(matrix_view<T> all, int i, index rows) {
  return all.slice(i * rows, (i + 1) * rows);
}

[[nodiscard]] inline index rows_of_each(index rows, int ranks) {
  return (rows + ranks - 1) / ranks;
}

/// What all ranks send, so that blocks are equal where heads are not.
[[nodiscard]] inline index widest(std::span<row_range const> held) {
  return std::ranges::max(held, {}, &row_range::count).count;
}

/// The first columns of a block.
template <class T>
[[nodiscard]] ops::rows_view<T> columns_of(matrix_view<T> block, index count) {
  return ops::rows_view<T>(block).slice_columns(0, count);
}

}  // namespace detail

/// From all R rows of the heads here, [R, w], to ceil(R/t) of the rows with all heads, whole width;
/// rows that are too many are zero. `held`: which columns of whole rows each rank has; those of
/// neighbours are the same where they hold the same heads.
/// Sent per rank: (t-1)/t of R times the widest w. Memory: two copies of that for the time of the
/// exchange.
template <class T, class Stream, class Comm>
[[nodiscard]] matrix_view<T> heads_to_rows(context<Stream>& c,
                                           axis_group<axis::tensor, Comm> const& ranks,
                                           ops::rows_view<T const> x,
                                           std::span<row_range const> held,
                                           of_shared_heads shared) {
  int const n = ranks.size();
  index const rows = detail::rows_of_each(x.rows, n);
  index const widest = detail::widest(held);
  auto const out = c.template allocate<T, 2>({rows, held.back().begin + held.back().count});
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, widest});
  auto const received = c.template allocate<T, 2>(sent.extents());
  if (widest > x.columns) ops::fill(c.stream, sent.slice(0, x.rows).span(), T(0));
  ops::copy(c.stream, detail::columns_of(sent.slice(0, x.rows), x.columns), x);
  ops::fill(c.stream, sent.slice(x.rows, n * rows).span(), T(0));
  ranks.all_to_all(c.stream, received.span(), sent.span());
  for (int first = 0, next = 0; first < n; first = next) {
    auto const heads = detail::block_of(received, first, rows);
    auto const& here = held[static_cast<std::size_t>(first)];
    for (next = first + 1; next < n; ++next) {  // those with the same heads
      if (held[static_cast<std::size_t>(next)].begin != here.begin) break;
      if (shared == of_shared_heads::addends)
        ops::add(c.stream, heads.span(), detail::block_of(received, next, rows).span());
    }
    ops::copy(c.stream, ops::rows_view<T>(out).slice_columns(here.begin, here.begin + here.count),
              ops::rows_view<T const>(detail::columns_of(heads, here.count)));
  }
  return out;
}

/// The way back: `y` becomes all rows of the heads here. Of shared heads every neighbour gets a
/// copy, or the first all of the sum and the others zeros.
template <class T, class Stream, class Comm>
void rows_to_heads(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                   ops::rows_view<T> y, std::type_identity_t<matrix_view<T const>> x,
                   std::span<row_range const> held, of_shared_heads shared) {
  int const n = ranks.size();
  index const rows = x.extent(0);
  index const widest = detail::widest(held);
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, widest});
  auto const received = c.template allocate<T, 2>(sent.extents());
  for (int r = 0; r < n; ++r) {
    auto const heads = detail::block_of(sent, r, rows);
    auto const& there = held[static_cast<std::size_t>(r)];
    bool const first = r == 0 || held[static_cast<std::size_t>(r) - 1].begin != there.begin;
    bool const filled = first || shared == of_shared_heads::copies;
    if (!filled || there.count < widest) ops::fill(c.stream, heads.span(), T(0));
    if (filled)
      ops::copy(c.stream, detail::columns_of(heads, there.count),
                ops::rows_view<T const>(x).slice_columns(there.begin, there.begin + there.count));
  }
  ranks.all_to_all(c.stream, received.span(), sent.span());
  ops::copy(c.stream, y,
            ops::rows_view<T const>(detail::columns_of(received.slice(0, y.rows), y.columns)));
}

/// Without `ranks` the layer of one rank. Else keeps one copy of the packed rows and one of q and
/// k, and in the backward pass another of their gradients. Sent per rank and pass: twice (t-1)/t of
/// q and k.
template <class T, class Comm>
struct query_key_norm {
  parallel::query_key_norm<T> inner;  // as wide as all heads, when they are exchanged
  // The ranks that hold other heads of the same rows, for a norm over all of them; none: it is
  // over what is here.
  axis_group<axis::tensor, Comm> ranks = {};
  // Which columns of rows of all queries, and of all keys, each of them has (slices.hpp)
  std::vector<row_range> queries = {}, keys = {};

  struct saved {
    typename parallel::query_key_norm<T>::saved inner;
    typename norm<T>::saved q, k;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, ops::head_layout const& layout,
                                       matrix_view<T> packed, saved& kept) const {
    if (!exchanges()) return inner.forward(c, layout, packed, kept.inner);
    auto const y = copy_of(c, packed);
    normalise(c, inner.q, layout.q(y), queries, kept.q);
    if (layout.kv_heads > 0) normalise(c, inner.k, layout.k(y), keys, kept.k);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, ops::head_layout const& layout,
                                              matrix_view<T> d_packed, saved& kept) const {
    if (!exchanges()) return inner.backward_input(c, layout, d_packed, kept.inner);
    auto const dx = copy_of(c, d_packed);
    backward(c, inner.q, layout.q(dx), queries, kept.q);
    if (layout.kv_heads > 0) backward(c, inner.k, layout.k(dx), keys, kept.k);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (!exchanges()) return inner.backward_weight(c, kept.inner);
    inner.q.backward_weight(c, kept.q);
    if (inner.k.weight.present()) inner.k.backward_weight(c, kept.k);
  }

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }

 private:
  [[nodiscard]] bool exchanges() const { return inner.present() && !ranks.is_single_rank(); }

  template <class Stream>
  [[nodiscard]] static matrix_view<T> copy_of(context<Stream>& c, matrix_view<T const> x) {
    auto const y = c.template allocate<T, 2>(x.extents());
    ops::copy(c.stream, y.span(), x.span());
    return y;
  }

  /// In place, as the rows are exchanged anyhow.
  template <class Stream>
  void normalise(context<Stream>& c, norm<T> const& by, ops::rows_view<T> x,
                 std::span<row_range const> held, typename norm<T>::saved& kept) const {
    auto const shared = of_shared_heads::copies;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, x, held, shared);
    by.keep(c, rows, kept);
    arena::scope const temporaries(c.memory);
    auto const y = c.template allocate<T, 2>(rows.extents());
    by.apply(c, y, kept);
    rows_to_heads(c, ranks, x, y, held, shared);
  }
  template <class Stream>
  void backward(context<Stream>& c, norm<T> const& by, ops::rows_view<T> dy,
                std::span<row_range const> held, typename norm<T>::saved& kept) const {
    auto const shared = of_shared_heads::addends;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, dy, held, shared);
    by.keep_backward(c, rows, kept);
    arena::scope const temporaries(c.memory);
    auto const dx = c.template allocate<T, 2>(rows.extents());
    by.apply_backward(c, dx, kept);
    rows_to_heads(c, ranks, dy, dx, held, shared);
  }
};

}  // namespace parallel::tensor
