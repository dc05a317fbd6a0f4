// Softmax attention on packed rows [Q | K | V]: of whole sequences, or, when ranks hold parts of
// the sequences, as the core of the ring and of the exchange of heads.
#pragma once

#include <array>
#include <limits>
#include <type_traits>

#include <parallel/context_parallel/attention_ranks.hpp>
#include <parallel/context_parallel/ulysses.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/attention/head_layout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::context_parallel {

/// Created in the forward pass and kept, with all that it refers to, for the backward pass. R local
/// rows, D width of the layout's heads. During a pass the ring also allocates, in accumulate_t<T>,
/// [R, D] for results and [R, row] for gradients, besides the received keys.
template <class T>
struct attention_core {
  using element = T;
  using accumulate = accumulate_t<T>;

  ops::head_layout layout = {};
  ops::attention_options options = {};
  matrix_view<T const> packed = {};  ///< [R, row of the layout]: the input
  matrix_view<T> values = {};        ///< [R, D]: the result
  tensor_view<accumulate, 3> lse =
      {};  ///< [sequences, heads, positions]; separately for each run of a divided sequence
  matrix_view<accumulate> result = {};     ///< [R, D]: the values as the ring accumulates them
  matrix_view<T const> d_values = {};      ///< [R, D]
  matrix_view<accumulate> d_queries = {};  ///< [R, D]

  /// Attention among `ranks`: the values of the local rows.
  template <class Stream, class Comm>
  [[nodiscard]] matrix_view<T> attend(context<Stream>& c, attention_ranks<Comm> const& ranks) {
    if (ranks.is_single_rank()) return attend_whole(c);
    if (ranks.exchange_heads()) return ulysses_forward(c, ranks.group, *this, packed);
    return attend_by_ring(c, ranks.group);
  }

  /// The gradient of the local packed rows, from the gradient of their values.
  template <class Stream, class Comm>
  [[nodiscard]] matrix_view<T> backward(context<Stream>& c, attention_ranks<Comm> const& ranks,
                                        matrix_view<T const> gradient) {
    if (ranks.is_single_rank()) return backward_whole(c, gradient);
    if (ranks.exchange_heads()) return ulysses_backward(c, ranks.group, *this, gradient);
    return backward_by_ring(c, ranks.group, gradient);
  }

  // The interface of ring_core.

  /// Keys and values in one contiguous matrix.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> keys(context<Stream>& c) const {
    auto const out = c.template allocate<T, 2>({packed.extent(0), 2 * layout.kv_width()});
    ops::copy(c.stream, ops::rows_view<T>(out), layout.kv(packed));
    return out;
  }
  [[nodiscard]] index window() const { return options.window; }

  template <class Stream>
  void forward(context<Stream>& c, run const& q, run const& k, matrix_view<T const> rows) const {
    ops::extend_attention(c.stream, run_rows(c, ops::rows_view<accumulate>(result), q), lse_of(q),
                          run_rows(c, layout.q(packed), q), run_rows(c, keys_of(rows), k),
                          run_rows(c, values_of(rows), k), pair_options(c, q, k));
  }

  template <class Stream>
  void backward(context<Stream>& c, run const& q, run const& k, matrix_view<T const> rows,
                matrix_view<accumulate> d_rows) const {
    ops::extend_attention_backward(c.stream,
                                   ops::extend_attention_backward_arguments<T>{
                                       .dq = run_rows(c, ops::rows_view<accumulate>(d_queries), q),
                                       .dk = run_rows(c, keys_of(d_rows), k),
                                       .dv = run_rows(c, values_of(d_rows), k),
                                       .dout = run_rows(c, ops::rows_view<T const>(d_values), q),
                                       .q = run_rows(c, layout.q(packed), q),
                                       .k = run_rows(c, keys_of(rows), k),
                                       .v = run_rows(c, values_of(rows), k),
                                       .out = run_rows(c, ops::rows_view<T const>(values), q),
                                       .lse = lse_of(q),
                                       .options = pair_options(c, q, k)});
  }

  // The interface of heads_core. From the forward pass on, packed, values and lse cover all rows
  // and the r-th of n parts of the heads.

  [[nodiscard]] std::array<index, 3> sections() const {
    return {layout.width(), layout.kv_width(), layout.kv_width()};
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward_heads(context<Stream>& c, matrix_view<T const> rows, int r,
                                             int n) {
    packed = rows;
    auto slice = head_slice(r, n);
    values = slice.attend_whole(c);
    lse = slice.lse;
    return values;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_heads(context<Stream>& c, matrix_view<T const> gradient,
                                              int r, int n) const {
    return head_slice(r, n).backward_whole(c, gradient);
  }

 private:
  template <class U>
  [[nodiscard]] ops::heads_view<U> split(ops::rows_view<U> rows, index sequence) const {
    return layout.split(rows, sequence);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> attend_whole(context<Stream>& c) {
    index const length = c.sequence;
    values = c.template allocate<T, 2>({packed.extent(0), layout.width()});
    auto const out = split(ops::rows_view<T>(values), length);
    if (c.mode == pass::training)
      lse = c.template allocate<accumulate, 3>({out.batch, layout.heads, length});
    ops::attention(c.stream, out, lse, split(layout.q(packed), length),
                   split(layout.k(packed), length), split(layout.v(packed), length), options);
    return values;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_whole(context<Stream>& c,
                                              matrix_view<T const> gradient) const {
    index const length = c.sequence;
    auto const d_packed = c.template allocate<T, 2>(packed.extents());
    ops::attention_backward(c.stream, ops::attention_backward_arguments<T>{
                                          .dq = split(layout.q(d_packed), length),
                                          .dk = split(layout.k(d_packed), length),
                                          .dv = split(layout.v(d_packed), length),
                                          .dout = split(ops::rows_view<T const>(gradient), length),
                                          .q = split(layout.q(packed), length),
                                          .k = split(layout.k(packed), length),
                                          .v = split(layout.v(packed), length),
                                          .out = split(ops::rows_view<T const>(values), length),
                                          .lse = lse,
                                          .options = options});
    return d_packed;
  }

  template <class Stream, class Comm>
  [[nodiscard]] matrix_view<T> attend_by_ring(context<Stream>& c, group<Comm> const& ranks) {
    index const rows = packed.extent(0);
    values = c.template allocate<T, 2>({rows, layout.width()});
    lse =
        c.template allocate<accumulate, 3>({2 * (rows / c.sequence), layout.heads, c.sequence / 2});
    arena::scope const temporaries(c.memory);
    if constexpr (std::is_same_v<T, accumulate>)
      result = values;
    else
      result = c.template allocate<accumulate, 2>(values.extents());
    ops::fill(c.stream, lse.span(), -std::numeric_limits<accumulate>::infinity());
    ring_forward(c, ranks, *this);
    if constexpr (!std::is_same_v<T, accumulate>) ops::cast(c.stream, values.span(), result.span());
    return values;
  }

  template <class Stream, class Comm>
  [[nodiscard]] matrix_view<T> backward_by_ring(context<Stream>& c, group<Comm> const& ranks,
                                                matrix_view<T const> gradient) {
    auto const d_packed = c.template allocate<T, 2>(packed.extents());
    arena::scope const temporaries(c.memory);
    index const rows = packed.extent(0);
    d_values = gradient;
    d_queries = c.template allocate<accumulate, 2>({rows, layout.width()});
    auto const d_keys = c.template allocate<accumulate, 2>({rows, 2 * layout.kv_width()});
    ops::fill(c.stream, d_queries.span(), 0);
    ring_backward(c, ranks, *this, d_keys);
    round_to(c, layout.q(d_packed), d_queries);
    round_to(c, layout.kv(d_packed), d_keys);
    return d_packed;
  }

  template <class Stream>
  static void round_to(context<Stream>& c, ops::rows_view<T> destination,
                       matrix_view<accumulate> source) {
    if constexpr (std::is_same_v<T, accumulate>) {
      ops::copy(c.stream, destination, matrix_view<T const>(source));
    } else {
      arena::scope const temporaries(c.memory);
      auto const rounded = c.template allocate<T, 2>(source.extents());
      ops::cast(c.stream, rounded.span(), source.span());
      ops::copy(c.stream, destination, matrix_view<T const>(rounded));
    }
  }

  /// The rows of one run, of every sequence.
  template <class Stream, class U>
  [[nodiscard]] ops::heads_view<U> run_rows(context<Stream> const& c, ops::rows_view<U> rows,
                                            run const& range) const {
    return split(rows, c.sequence).slice(range.row, range.row + range.count);
  }
  template <class U>
  [[nodiscard]] ops::rows_view<U> keys_of(matrix_view<U> rows) const {
    return ops::rows_view<U>(rows).slice_columns(0, layout.kv_width());
  }
  template <class U>
  [[nodiscard]] ops::rows_view<U> values_of(matrix_view<U> rows) const {
    return ops::rows_view<U>(rows).slice_columns(layout.kv_width(), 2 * layout.kv_width());
  }
  [[nodiscard]] tensor_view<accumulate, 3> lse_of(run const& range) const {
    index const run_number = range.row / range.count;
    index const sequences = lse.extent(0) / 2;  // a divided sequence has two runs
    return lse.slice(run_number * sequences, (run_number + 1) * sequences);
  }
  template <class Stream>
  [[nodiscard]] ops::attention_options pair_options(context<Stream> const& c, run const& q,
                                                    run const& k) const {
    auto out = options;
    out.positions = {
        .sequence_length = c.whole_sequence(), .first_query = q.position, .first_key = k.position};
    return out;
  }

  /// The r-th of n parts of the heads.
  [[nodiscard]] attention_core head_slice(int r, int n) const {
    attention_core slice = *this;
    slice.layout = {layout.heads / n, layout.kv_heads / n, layout.dim};
    index const first = r * slice.layout.heads;
    auto& dropout = slice.options.dropout;
    dropout.first_head += first;
    if (dropout.heads == 0) dropout.heads = layout.heads;
    if (!options.alibi_slopes.empty())
      slice.options.alibi_slopes = options.alibi_slopes.subspan(
          static_cast<std::size_t>(first), static_cast<std::size_t>(slice.layout.heads));
    return slice;
  }
};

}  // namespace parallel::context_parallel
