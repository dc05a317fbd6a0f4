// Causal attention without the softmax, over integers modulo 2^64: y_s = Σ_t (x_s · x_t) x_t for
// each head, over the positions t that s sees. Exact in any order, so a division over ranks that
// computes the same thing gives the same bits. It passes through the library's ring and its
// exchange of heads as MPT's attention does.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/context/method.hpp>
#include <parallel/context/ring.hpp>
#include <parallel/context/ulysses.hpp>

namespace test {

using parallel::context;
using parallel::index;
using parallel::matrix_view;
namespace context_parallel = parallel::context_parallel;
using ring = std::uint64_t;

/// Both cores: rows x are queries, keys and values at once. Forward needs x and y, backward also dy
/// and dx, to which is added.
struct ring_attention_core {
  using element = ring;
  using run = context_parallel::run;

  index heads = 1;
  index reach = -1;  // positions before its own that one sees; negative: all
  matrix_view<ring const> x = {};
  matrix_view<ring> y = {};
  matrix_view<ring const> dy = {};
  matrix_view<ring> dx = {};
  matrix_view<ring const> packed = {};  // all rows of some heads, when those are exchanged

  template <class Stream>
  [[nodiscard]] matrix_view<ring const> keys(context<Stream>&) const {
    return x;
  }
  [[nodiscard]] index window() const { return reach; }

  template <class Stream>
  void forward(context<Stream>& c, run const& q, run const& k, matrix_view<ring const> rows) const {
    for_each_pair(c, q, k, [*this, rows](index s, index t, index h) {
      ring dot = 0;
      for (index i = begin(h); i < begin(h + 1); ++i) dot += x(s, i) * rows(t, i);
      for (index i = begin(h); i < begin(h + 1); ++i) y(s, i) += dot * rows(t, i);
    });
  }

  template <class Stream>
  void backward(context<Stream>& c, run const& q, run const& k, matrix_view<ring const> rows,
                matrix_view<ring> d_rows) const {
    for_each_pair(c, q, k, [*this, rows, d_rows](index s, index t, index h) {
      ring dot = 0;
      ring d_dot = 0;
      for (index i = begin(h); i < begin(h + 1); ++i) {
        dot += x(s, i) * rows(t, i);
        d_dot += dy(s, i) * rows(t, i);
      }
      for (index i = begin(h); i < begin(h + 1); ++i) {
        d_rows(t, i) += dot * dy(s, i) + d_dot * x(s, i);
        dx(s, i) += d_dot * rows(t, i);
      }
    });
  }

  [[nodiscard]] std::array<index, 1> sections() const { return {x.extent(1)}; }

  template <class Stream>
  [[nodiscard]] matrix_view<ring> forward_heads(context<Stream>& c, matrix_view<ring const> rows,
                                                int, int n) {
    packed = rows;
    return part(n).attend(c);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<ring> backward_heads(context<Stream>& c, matrix_view<ring const> d, int,
                                                 int n) const {
    return part(n).attend_backward(c, d);
  }

  /// y, all sequences being here.
  template <class Stream>
  [[nodiscard]] matrix_view<ring> attend(context<Stream>& c) {
    y = c.template allocate<ring, 2>(x.extents());
    parallel::ops::fill(c.stream, y.span(), 0);
    run const all{0, 0, c.sequence};
    forward(c, all, all, x);
    return y;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<ring> attend_backward(context<Stream>& c, matrix_view<ring const> d) {
    dy = d;
    dx = c.template allocate<ring, 2>(x.extents());
    parallel::ops::fill(c.stream, dx.span(), 0);
    run const all{0, 0, c.sequence};
    backward(c, all, all, x, dx);
    return dx;
  }

 private:
  [[nodiscard]] ring_attention_core part(int n) const {
    return {.heads = heads / n, .reach = reach, .x = packed};
  }
  [[nodiscard]] index begin(index head) const { return head * x.extent(1) / heads; }

  /// f(row of the query, row of the key, head).
  template <class Stream, class F>
  void for_each_pair(context<Stream>& c, run const& q, run const& k, F&& f) const {
    c.stream.enqueue([=, documents = c.document_begins, whole = c.whole_sequence(),
                      length = c.sequence, sequences = x.extent(0) / c.sequence,
                      reach = this->reach, heads = this->heads] {
      for (index b = 0; b < sequences; ++b)
        for (index s = 0; s < q.count; ++s) {
          index const at = q.position + s;
          index first = reach < 0 ? 0 : std::max<index>(at - reach, 0);
          if (!documents.empty())
            first = std::max<index>(first, documents[static_cast<std::size_t>(b * whole + at)]);
          for (index t = std::max<index>(first - k.position, 0);
               t < std::min(k.count, at - k.position + 1); ++t)
            for (index h = 0; h < heads; ++h) f(b * length + q.row + s, b * length + k.row + t, h);
        }
    });
  }
};

template <class Comm>
struct basic_ring_attention {
  using element = ring;
  using group = context_parallel::group<Comm>;

  group ranks = {};
  context_parallel::method method = context_parallel::method::ring;
  index heads = 1;
  index window = -1;

  struct saved {
    ring_attention_core core;
  };

  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& kept) const {
    kept.core = {.heads = heads, .reach = window, .x = x};
    if (ranks.alone()) return kept.core.attend(c);
    if (method == context_parallel::method::ulysses)
      return context_parallel::ulysses_forward(c, ranks, kept.core, x);
    return forward_by_ring(c, kept.core);
  }

  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& kept) const {
    auto& core = kept.core;
    if (ranks.alone()) return core.attend_backward(c, dy);
    if (method == context_parallel::method::ulysses)
      return context_parallel::ulysses_backward(c, ranks, core, dy);
    core.dy = dy;
    return backward_by_ring(c, core);
  }

  /// The ring, of one rank too; `core` is of this layer or one derived from it.
  template <class Stream, class Core>
  matrix_view<ring> forward_by_ring(context<Stream>& c, Core& core) const {
    core.y = c.template allocate<ring, 2>(core.x.extents());
    parallel::ops::fill(c.stream, core.y.span(), 0);
    context_parallel::ring_forward(c, ranks, core);
    return core.y;
  }
  template <class Stream, class Core>
  matrix_view<ring> backward_by_ring(context<Stream>& c, Core& core) const {
    core.dx = c.template allocate<ring, 2>(core.x.extents());
    parallel::ops::fill(c.stream, core.dx.span(), 0);
    auto const d_keys = c.template allocate<ring, 2>(core.x.extents());
    context_parallel::ring_backward(c, ranks, core, d_keys);
    parallel::ops::add(c.stream, core.dx.span(), d_keys.span());
    return core.dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};
using ring_attention = basic_ring_attention<parallel::any_communicator>;

}  // namespace test
