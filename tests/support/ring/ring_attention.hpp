// Causal attention without the softmax, over integers modulo 2^64: y_s = Σ_t (x_s · x_t) x_t for
// each head, over the positions t that s sees (or with separate keys Σ_t (q_s · k_t) k_t). Sums are
// exact in any order, so a division over ranks that computes the same function gives the same bits.
// The attention uses the library's ring and its exchange of heads as MPT's attention does.
#pragma once

#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/context_parallel/method.hpp>
#include <parallel/context_parallel/ring.hpp>
#include <parallel/context_parallel/ulysses.hpp>
#include <parallel/ops/rows_view.hpp>

#include "support/ring/ring_items.hpp"

namespace test {

using parallel::context;
using parallel::index;
using parallel::matrix_view;
using parallel::ops::rows_view;
namespace context_parallel = parallel::context_parallel;

/// The core of attention by either method. Rows of x are packed: the queries of all heads, then the
/// keys of `key_heads` heads, which are also the values; without key heads the queries are the
/// keys. Forward needs x and y, backward also dy and dx; it adds to dx.
struct ring_attention_core {
  using element = ring;
  using run = context_parallel::run;

  index heads = 1;
  index key_heads =
      0;             // shared by equal numbers of neighbouring heads; 0: the queries are the keys
  index reach = -1;  // number of earlier positions that a query sees; negative: all
  matrix_view<ring const> x = {};
  matrix_view<ring> y = {};
  matrix_view<ring const> dy = {};
  matrix_view<ring> dx = {};
  matrix_view<ring const> packed = {};  // all rows of some heads, if heads are exchanged

  [[nodiscard]] index dim() const { return x.extent(1) / (heads + key_heads); }
  /// Columns of the result.
  [[nodiscard]] index width() const { return heads * dim(); }
  /// Columns of the keys.
  [[nodiscard]] index key_width() const { return (key_heads == 0 ? heads : key_heads) * dim(); }

  template <class Stream>
  [[nodiscard]] matrix_view<ring const> keys(context<Stream>& c) const {
    if (key_heads == 0) return x;
    auto const out = c.template allocate<ring, 2>({x.extent(0), key_width()});
    parallel::ops::copy(c.stream, rows_view<ring>(out), key_columns(x));
    return out;
  }
  [[nodiscard]] index window() const { return reach; }

  template <class Stream>
  void forward(context<Stream>& c, run const& q, run const& k, matrix_view<ring const> rows) const {
    auto const terms = pairs(c, q, k, rows);
    for_each_item(c.stream, terms.sequences * q.count * heads,
                  items::attend{terms, y.data(), y.extent(1)});
  }

  template <class Stream>
  void backward(context<Stream>& c, run const& q, run const& k, matrix_view<ring const> rows,
                matrix_view<ring> d_rows) const {
    auto const terms = pairs(c, q, k, rows);
    index const key_head_count = heads / terms.sharers;
    for_each_item(c.stream, terms.sequences * q.count * heads,
                  items::attend_backward{terms, dy.data(), dx.data(), dy.extent(1)});
    for_each_item(c.stream, terms.sequences * k.count * key_head_count,
                  items::attend_backward_keys{terms, dy.data(), d_rows.data(), dy.extent(1)});
  }

  /// Adds the gradients of the keys to dx.
  template <class Stream>
  void add_keys(context<Stream>& c, matrix_view<ring const> d_keys) const {
    for_each_item(c.stream, dx.extent(0),
                  items::add_keys{dx.data(), d_keys.data(), dx.extent(1), key_width()});
  }

  [[nodiscard]] std::vector<index> sections() const {
    if (key_heads == 0) return {width()};
    return {width(), key_width()};
  }

  template <class Stream>
  [[nodiscard]] matrix_view<ring> forward_heads(context<Stream>& c, matrix_view<ring const> rows,
                                                int, int n) {
    packed = rows;
    return share_of_heads(n).attend(c);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<ring> backward_heads(context<Stream>& c, matrix_view<ring const> d, int,
                                                 int n) const {
    return share_of_heads(n).attend_backward(c, d);
  }

  /// Computes y from whole sequences.
  template <class Stream>
  [[nodiscard]] matrix_view<ring> attend(context<Stream>& c) {
    y = c.template allocate<ring, 2>({x.extent(0), width()});
    parallel::ops::fill(c.stream, y.span(), 0);
    parallel::arena::scope const temporaries(c.memory);
    run const whole_run{0, 0, c.sequence};
    forward(c, whole_run, whole_run, keys(c));
    return y;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<ring> attend_backward(context<Stream>& c, matrix_view<ring const> d) {
    dy = d;
    dx = c.template allocate<ring, 2>(x.extents());
    parallel::ops::fill(c.stream, dx.span(), 0);
    parallel::arena::scope const temporaries(c.memory);
    auto const d_keys = c.template allocate<ring, 2>({x.extent(0), key_width()});
    parallel::ops::fill(c.stream, d_keys.span(), 0);
    run const whole_run{0, 0, c.sequence};
    backward(c, whole_run, whole_run, keys(c), d_keys);
    add_keys(c, d_keys);
    return dx;
  }

 private:
  [[nodiscard]] ring_attention_core share_of_heads(int n) const {
    return {.heads = heads / n, .key_heads = key_heads / n, .reach = reach, .x = packed};
  }
  [[nodiscard]] rows_view<ring const> key_columns(matrix_view<ring const> rows) const {
    return rows_view<ring const>(rows).slice_columns(rows.extent(1) - key_width(), rows.extent(1));
  }

  /// The pairs of positions in these runs of which the query sees the key.
  template <class Stream>
  [[nodiscard]] items::pairs pairs(context<Stream>& c, run const& query_run, run const& key_run,
                                   matrix_view<ring const> rows) const {
    auto const stretch = [](run const& r) { return items::stretch{r.row, r.position, r.count}; };
    auto const& documents = c.document_begins;
    return {.x = x.data(),
            .keys = rows.data(),
            .x_columns = x.extent(1),
            .key_columns = key_width(),
            .documents = documents.empty() ? nullptr : documents.data(),
            .full_length = c.whole_sequence(),
            .length = c.sequence,
            .sequences = x.extent(0) / c.sequence,
            .q = stretch(query_run),
            .k = stretch(key_run),
            .window = reach,
            .heads = heads,
            .dim = dim(),
            .sharers = key_heads == 0 ? 1 : heads / key_heads};
  }
};

template <class Comm>
struct basic_ring_attention {
  using element = ring;
  static constexpr bool takes_divided_sequences = true;
  using group = context_parallel::group<Comm>;

  group ranks = {};
  context_parallel::method method = context_parallel::method::ring;
  index heads = 1;
  index key_heads = 0;
  index window = -1;

  struct saved {
    ring_attention_core core;
  };

  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& state) const {
    state.core = {.heads = heads, .key_heads = key_heads, .reach = window, .x = x};
    if (ranks.is_single_rank()) return state.core.attend(c);
    if (method == context_parallel::method::ulysses)
      return context_parallel::ulysses_forward(c, ranks, state.core, x);
    return forward_by_ring(c, state.core);
  }

  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& state) const {
    auto& core = state.core;
    if (ranks.is_single_rank()) return core.attend_backward(c, dy);
    if (method == context_parallel::method::ulysses)
      return context_parallel::ulysses_backward(c, ranks, core, dy);
    core.dy = dy;
    return backward_by_ring(c, core);
  }

  /// Attention by the ring method, for a single rank too. `core` has the sizes of this layer or
  /// derived ones.
  template <class Stream, class Core>
  matrix_view<ring> forward_by_ring(context<Stream>& c, Core& core) const {
    core.y = c.template allocate<ring, 2>({core.x.extent(0), core.width()});
    parallel::ops::fill(c.stream, core.y.span(), 0);
    context_parallel::ring_forward(c, ranks, core);
    return core.y;
  }
  template <class Stream, class Core>
  matrix_view<ring> backward_by_ring(context<Stream>& c, Core& core) const {
    core.dx = c.template allocate<ring, 2>(core.x.extents());
    parallel::ops::fill(c.stream, core.dx.span(), 0);
    parallel::arena::scope const temporaries(c.memory);
    auto const d_keys = c.template allocate<ring, 2>({core.x.extent(0), core.key_width()});
    context_parallel::ring_backward(c, ranks, core, d_keys);
    core.add_keys(c, d_keys);
    return core.dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}

  /// The same layer for a single rank with another type of communicator.
  template <class Other>
  [[nodiscard]] basic_ring_attention<Other> for_single_rank() const {
    return {{}, method, heads, key_heads, window};
  }
};
using ring_attention = basic_ring_attention<parallel::any_communicator>;

}  // namespace test
