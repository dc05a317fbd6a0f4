// Norms of queries and keys over all heads together, when the heads are divided over tensor ranks.
//
// Heads are exchanged for rows: every rank gets all heads of 1/t of the rows, normalises those, and
// gives the heads back. So the norm is the ordinary one, with its whole weight on every rank; as
// each saw other rows, weight gradients are addends (region::copies_inside).
#pragma once

#include <cstdint>
#include <type_traits>

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

}  // namespace detail

/// From all R rows of the heads here, [R, w], to ceil(R/t) of the rows with all heads, whole width
/// t w / `sharers`; rows that are too many are zero. `sharers` neighbours each hold the same heads.
/// Sent per rank: (t-1)/t of x. Memory: two copies of x for the time of the exchange.
template <class T, class Stream, class Comm>
[[nodiscard]] matrix_view<T> heads_to_rows(context<Stream>& c,
                                           axis_group<axis::tensor, Comm> const& ranks,
                                           ops::rows_view<T const> x, int sharers,
                                           of_shared_heads shared) {
  int const n = ranks.size();
  index const rows = detail::rows_of_each(x.rows, n);
  auto const out = c.template allocate<T, 2>({rows, n / sharers * x.columns});
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, x.columns});
  auto const received = c.template allocate<T, 2>(sent.extents());
  ops::copy(c.stream, ops::rows_view<T>(sent.slice(0, x.rows)), x);
  ops::fill(c.stream, sent.slice(x.rows, n * rows).span(), T(0));
  ranks.all_to_all(c.stream, received.span(), sent.span());
  for (int first = 0; first < n; first += sharers) {
    auto const heads = detail::block_of(received, first, rows);
    if (shared == of_shared_heads::addends)
      for (int i = 1; i < sharers; ++i)
        ops::add(c.stream, heads.span(), detail::block_of(received, first + i, rows).span());
    index const column = first / sharers * x.columns;
    ops::copy(c.stream, ops::rows_view<T>(out).slice_columns(column, column + x.columns),
              ops::rows_view<T const>(heads));
  }
  return out;
}

/// The way back: `y` becomes all rows of the heads here. Of shared heads every neighbour gets a
/// copy, or the first all of the sum and the others zeros.
template <class T, class Stream, class Comm>
void rows_to_heads(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                   ops::rows_view<T> y, std::type_identity_t<matrix_view<T const>> x, int sharers,
                   of_shared_heads shared) {
  int const n = ranks.size();
  index const rows = x.extent(0);
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>({n * rows, y.columns});
  auto const received = c.template allocate<T, 2>(sent.extents());
  for (int r = 0; r < n; ++r) {
    auto const heads = detail::block_of(sent, r, rows);
    index const column = r / sharers * y.columns;
    if (r % sharers == 0 || shared == of_shared_heads::copies)
      ops::copy(c.stream, ops::rows_view<T>(heads),
                ops::rows_view<T const>(x).slice_columns(column, column + y.columns));
    else
      ops::fill(c.stream, heads.span(), T(0));
  }
  ranks.all_to_all(c.stream, received.span(), sent.span());
  ops::copy(c.stream, y, ops::rows_view<T const>(received.slice(0, y.rows)));
}

/// Without `ranks` the layer of one rank. Else keeps one copy of the packed rows and one of q and
/// k, and in the backward pass another of their gradients. Sent per rank and pass: twice (t-1)/t of
/// q and k.
template <class T, class Comm>
struct query_key_norm {
  parallel::query_key_norm<T> inner;  // as wide as all heads, when they are exchanged
  // Those that hold other heads of the same rows, for a norm over all of them; none: it is over
  // what is here.
  axis_group<axis::tensor, Comm> ranks = {};
  int key_sharers = 1;  // neighbours that hold the same key heads

  struct saved {
    typename parallel::query_key_norm<T>::saved inner;
    typename norm<T>::saved q, k;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, ops::head_layout const& layout,
                                       matrix_view<T> packed, saved& kept) const {
    if (!exchanges()) return inner.forward(c, layout, packed, kept.inner);
    auto const y = copy_of(c, packed);
    normalise(c, inner.q, layout.q(y), 1, kept.q);
    if (layout.kv_heads > 0) normalise(c, inner.k, layout.k(y), key_sharers, kept.k);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, ops::head_layout const& layout,
                                              matrix_view<T> d_packed, saved& kept) const {
    if (!exchanges()) return inner.backward_input(c, layout, d_packed, kept.inner);
    auto const dx = copy_of(c, d_packed);
    backward(c, inner.q, layout.q(dx), 1, kept.q);
    if (layout.kv_heads > 0) backward(c, inner.k, layout.k(dx), key_sharers, kept.k);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (!exchanges()) return inner.backward_weight(c, kept.inner);
    inner.q.backward_weight(c, kept.q);
    if (inner.k.weight.present()) inner.k.backward_weight(c, kept.k);
  }

  void visit_parameters(auto&& visit) { inner.visit_parameters(visit); }

 private:
  [[nodiscard]] bool exchanges() const { return inner.present() && !ranks.alone(); }

  template <class Stream>
  [[nodiscard]] static matrix_view<T> copy_of(context<Stream>& c, matrix_view<T const> x) {
    auto const y = c.template allocate<T, 2>(x.extents());
    ops::copy(c.stream, y.span(), x.span());
    return y;
  }

  /// In place, as the rows are exchanged anyhow.
  template <class Stream>
  void normalise(context<Stream>& c, norm<T> const& by, ops::rows_view<T> x, int sharers,
                 typename norm<T>::saved& kept) const {
    auto const shared = of_shared_heads::copies;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, x, sharers, shared);
    by.keep(c, rows, kept);
    arena::scope const temporaries(c.memory);
    auto const y = c.template allocate<T, 2>(rows.extents());
    by.apply(c, y, kept);
    rows_to_heads(c, ranks, x, y, sharers, shared);
  }
  template <class Stream>
  void backward(context<Stream>& c, norm<T> const& by, ops::rows_view<T> dy, int sharers,
                typename norm<T>::saved& kept) const {
    auto const shared = of_shared_heads::addends;
    matrix_view<T const> const rows = heads_to_rows<T>(c, ranks, dy, sharers, shared);
    arena::scope const temporaries(c.memory);
    rows_to_heads(c, ranks, dy, by.backward_input(c, rows, kept), sharers, shared);
  }
};

}  // namespace parallel::tensor
