// Self-attention: projection to Q | K | V, optional clipping, norms of queries and keys, what
// positions do to them, causal attention, and the output projection.
//
// Legend: R rows here = sequences × length, D width, H heads. The packed rows [Q | K | V] of the
// projection are attended to in place, without a transpose. When ranks hold parts of the same
// sequences, they exchange in attention alone; positions are those of whole sequences everywhere.
#pragma once

#include <span>
#include <vector>

#include <parallel/context/attention_core.hpp>
#include <parallel/context/attention_ranks.hpp>
#include <parallel/context/rotary_positions.hpp>
#include <parallel/layer/kv_cache.hpp>
#include <parallel/layer/qkv_projection.hpp>
#include <parallel/layer/query_key_norm.hpp>
#include <parallel/layer/shared_keys.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/head_layout.hpp>

namespace parallel::context_parallel {

/// Keeps the packed projections (twice with norms of q and k), the attended values, and one number
/// per row and head. Without keys of its own it makes queries alone and attends to the keys and
/// values of another layer, which it finds in `saved::shared`; that costs a copy of them each way.
///
/// `In`, `Out`, `QueryKeyNorm`: the layers of one rank, or column_linear, row_linear and the norm
/// of ranks that hold other heads (parallel/tensor); between the first two are columns of all rows.
/// `Positions`: like rotary_positions.
template <class T, class Comm, class In = linear<T>, class Out = linear<T>,
          class QueryKeyNorm = query_key_norm<T>, class Positions = rotary_positions>
struct attention {
  using element = T;

  qkv_projection<T, In> qkv;  // [row of the layout, D]; of queries alone: [their width, D]
  QueryKeyNorm query_key;     // of q and k, or absent
  Out out;                    // "out_proj": [D, D]
  Positions positions;
  ops::head_layout layout;        // of packed rows: the heads that are here
  bool own_keys = true;           // else those of another layer
  ops::attention_options scores;  // less slopes, and what a pass brings: documents, random numbers
  std::uint32_t dropout_operation = 0;
  std::vector<float> slopes;         // ALiBi, one per head; empty: none
  attention_ranks<Comm> among = {};  // those that hold other parts of the sequences

  struct saved {
    typename qkv_projection<T, In>::saved qkv;
    typename QueryKeyNorm::saved query_key;
    typename Out::saved out;
    attention_core<T> core;
    // Set for generation, one for each sequence: its new rows attend to the cached ones too.
    // Without keys of its own these are the caches of the layer that makes them, to which that
    // layer has added its rows.
    std::span<kv_cache<T>> caches;
    shared_keys<T>* shared = nullptr;  // set when several layers attend to the same keys
  };

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& kept,
                             matrix_view<T const> onto = {}) const {
    auto const projected = qkv.forward(c, x, kept.qkv);
    auto inside = c.for_rows_of(projected);
    auto const values = placed_like(projected, attend(inside, local(projected), kept));
    return forward_onto(out, c, values, kept.out, onto);
  }

  template <class Stream>
  [[nodiscard]] auto backward_input(context<Stream>& c, matrix_view<T const> dy,
                                    saved& kept) const {
    auto const d_values = out.backward_input(c, dy, kept.out);
    auto inside = c.for_rows_of(d_values);
    auto const d_projected = placed_like(d_values, attend_backward(inside, local(d_values), kept));
    return qkv.backward_input(c, d_projected, kept.qkv);
  }

  /// As of linear.
  void restore_input(saved& kept, matrix_view<T const> x) const { qkv.restore_input(kept.qkv, x); }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight_of(out, c, kept.out);
    backward_weight_of(qkv, c, kept.qkv);
    backward_weight_of(query_key, c, kept.query_key);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(qkv, visit);
    visit_parameters_of(query_key, visit);
    visit_parameters_of(out, visit);
  }

 private:
  /// The values that the projected rows attend to.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend(context<Stream>& c, matrix_view<T> projected,
                                      saved& kept) const {
    auto const made = query_key.forward(c, made_here(), projected, kept.query_key);
    if (!kept.caches.empty()) return attend_cached(c, made, kept.caches);
    positions.forward(c, made_here(), made, 0);
    kept.core = {
        .layout = layout, .options = options(c), .packed = with_keys(c, made, kept.shared)};
    return kept.core.attend(c, among);
  }

  /// The gradient of the projected rows, from that of their values.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend_backward(context<Stream>& c, matrix_view<T const> d_values,
                                               saved& kept) const {
    auto const d_made = without_keys(c, kept.core.backward(c, among, d_values), kept.shared);
    positions.backward(c, made_here(), d_made);
    return query_key.backward_input(c, made_here(), d_made, kept.query_key);
  }

  /// Of the packed rows those columns that are made here.
  [[nodiscard]] ops::head_layout made_here() const {
    return {.heads = layout.heads, .kv_heads = own_keys ? layout.kv_heads : 0, .dim = layout.dim};
  }

  /// The position of the first of `rows` new rows.
  [[nodiscard]] index first_of(index rows, kv_cache<T> const& cache) const {
    return own_keys ? cache.length : cache.length - rows;
  }

  /// Packed rows to attend to: what was made here, beside keys and values of another layer unless
  /// they were made here, too.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> with_keys(context<Stream>& c, matrix_view<T> made,
                                               shared_keys<T> const* shared) const {
    if (own_keys) {
      if (shared != nullptr) shared->store(c, layout.kv(made));
      return made;
    }
    require(shared != nullptr, "attention without keys of its own was given none");
    auto const packed = c.template allocate<T, 2>({made.extent(0), layout.row()});
    ops::copy(c.stream, layout.q(packed), ops::rows_view<T const>(made));
    ops::copy(c.stream, layout.kv(packed), ops::rows_view<T const>(shared->rows));
    return packed;
  }

  /// From the gradient of those rows that of what was made here; that of keys which others attend
  /// to, or made, goes by way of `shared`.
  template <class Stream>
  [[nodiscard]] matrix_view<T> without_keys(context<Stream>& c, matrix_view<T> d_packed,
                                            shared_keys<T>* shared) const {
    if (shared == nullptr) return d_packed;
    shared->add_gradient(c, layout.kv(d_packed));
    if (own_keys) {
      ops::copy(c.stream, layout.kv(d_packed), ops::rows_view<T const>(shared->gradient));
      return d_packed;
    }
    auto const d_made = c.template allocate<T, 2>({d_packed.extent(0), layout.width()});
    ops::copy(c.stream, ops::rows_view<T>(d_made), ops::rows_view<T const>(layout.q(d_packed)));
    return d_made;
  }

  template <class Stream>
  [[nodiscard]] ops::attention_options options(context<Stream> const& c) const {
    auto asked = scores;
    asked.alibi_slopes = slopes;
    if (c.mode != pass::training) asked.dropout.probability = 0.0F;
    asked.dropout.random = c.random(dropout_operation);
    asked.dropout.first_sequence = c.run_position.first_sequence;
    asked.document_begins = c.document_begins;
    return asked;
  }

  /// The values of new rows, which see the cached ones too; keys made here are cached from now on.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend_cached(context<Stream>& c, matrix_view<T> made,
                                             std::span<kv_cache<T>> caches) const {
    require(made.extent(0) == static_cast<index>(caches.size()) * c.sequence,
            "attention: ", caches.size(), " KV caches for ", made.extent(0),
            " rows of sequences of ", c.sequence);
    auto const all = c.template allocate<T, 2>({made.extent(0), layout.width()});
    for (index row = 0; auto& cache : caches) {
      index const end = row + c.sequence;
      auto const rows = made.slice(row, end);
      auto const values = ops::rows_view<T>(all.slice(row, end));
      positions.forward(c, made_here(), rows, first_of(c.sequence, cache));
      matrix_view<T const> const packed = rows;
      if (own_keys) cache.append(c.stream, layout, packed);
      ops::attention(c.stream, layout.split(values, c.sequence), tensor_view<accumulate_t<T>, 3>{},
                     layout.split(layout.q(packed), c.sequence), cache.keys(layout),
                     cache.values(layout), options(c));
      row = end;
    }
    return all;
  }
};

}  // namespace parallel::context_parallel
