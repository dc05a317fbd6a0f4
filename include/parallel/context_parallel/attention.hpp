// Self-attention: projection to Q | K | V, optional clipping, norms of queries and keys, position
// encoding, causal attention, and the output projection.
//
// Attention reads the packed rows [Q | K | V] of the projection in place, without a transpose. When
// ranks hold parts of the same sequences, only attention exchanges data; positions are always those
// of whole sequences. In the comments, D is the width of the layer's input.
#pragma once

#include <span>
#include <vector>

#include <parallel/context_parallel/attention_core.hpp>
#include <parallel/context_parallel/attention_ranks.hpp>
#include <parallel/context_parallel/rotary_positions.hpp>
#include <parallel/layer/kv_cache.hpp>
#include <parallel/layer/qkv_projection.hpp>
#include <parallel/layer/query_key_norm.hpp>
#include <parallel/layer/shared_keys.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/attention/head_layout.hpp>

namespace parallel::context_parallel {

/// For the backward pass it keeps the packed projections (twice with norms of queries and keys),
/// the attended values, and one number per row and head. A layer without keys of its own computes
/// only queries and attends to the keys and values of another layer, which it finds in
/// `saved::shared`; that costs one copy of them in each direction.
///
/// `In` projects to Q | K | V, `Out` projects the attended values back. Where each rank holds all
/// heads they are `linear`; where ranks hold different heads (parallel/tensor) they are
/// column_linear and row_linear, between which a rank has all rows of the columns of its heads, and
/// `QueryKeyNorm` is the norm for such ranks. `Positions`: a type like rotary_positions.
template <class T, class Comm, class In = linear<T>, class Out = linear<T>,
          class QueryKeyNorm = query_key_norm<T>, class Positions = rotary_positions>
struct attention {
  using element = T;
  static constexpr bool takes_divided_sequences = true;
  /// So that check_layer, which has one rank, does not divide sequences.
  static constexpr bool exchanges_rows = true;

  qkv_projection<T, In> qkv;  ///< [layout.row(), D]; without keys of its own: [layout.width(), D]
  QueryKeyNorm query_key;     ///< the norms of queries and keys, if any
  Out out;                    ///< "out_proj": [D, layout.width()]
  Positions positions;
  ops::head_layout layout;        ///< of packed rows, for this rank's heads
  bool has_own_keys = true;       ///< false: it attends to the keys of another layer
  ops::attention_options scores;  ///< how scores are computed; options() adds slopes, documents and
                                  ///< the random numbers of a pass
  std::uint32_t dropout_operation = 0;
  std::vector<float> slopes;         ///< ALiBi, one per head; empty: none
  attention_ranks<Comm> ranks = {};  ///< the ranks that hold other parts of the same sequences

  struct saved {
    typename qkv_projection<T, In>::saved qkv;
    typename QueryKeyNorm::saved query_key;
    typename Out::saved out;
    attention_core<T> core;
    /// Set for generation, one for each sequence, whose new rows attend to the cached rows too. A
    /// layer without keys of its own uses the caches of the layer that computes the keys, which has
    /// already appended the new rows.
    std::span<kv_cache<T>> caches;
    shared_keys<T>* shared = nullptr;  ///< set when several layers attend to the same keys
  };

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                             matrix_view<T const> summand = {}) const {
    auto const projected = qkv.forward(c, x, state.qkv);
    auto region_context = c.for_rows_of(projected);
    auto const values = sliced_like(projected, attend(region_context, local(projected), state));
    return forward_onto(out, c, values, state.out, summand);
  }

  template <class Stream>
  [[nodiscard]] auto backward_input(context<Stream>& c, matrix_view<T const> dy,
                                    saved& state) const {
    auto const d_values = out.backward_input(c, dy, state.out);
    auto region_context = c.for_rows_of(d_values);
    auto const d_projected =
        sliced_like(d_values, attend_backward(region_context, local(d_values), state));
    return qkv.backward_input(c, d_projected, state.qkv);
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    qkv.restore_input(state.qkv, x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(out, c, state.out);
    backward_weight_of(qkv, c, state.qkv);
    backward_weight_of(query_key, c, state.query_key);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(qkv, visit);
    visit_parameters_of(query_key, visit);
    visit_parameters_of(out, visit);
  }

 private:
  /// The attended values of the projected rows.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend(context<Stream>& c, matrix_view<T> projected,
                                      saved& state) const {
    auto const computed = query_key.forward(c, computed_layout(), projected, state.query_key);
    if (!state.caches.empty()) return attend_cached(c, computed, state.caches);
    positions.forward(c, computed_layout(), computed, 0, c.whole_sequence());
    state.core = {
        .layout = layout, .options = options(c), .packed = packed_rows(c, computed, state.shared)};
    return state.core.attend(c, ranks);
  }

  /// The gradient of the projected rows, from the gradient of the attended values.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend_backward(context<Stream>& c, matrix_view<T const> d_values,
                                               saved& state) const {
    auto const d_computed =
        computed_gradient(c, state.core.backward(c, ranks, d_values), state.shared);
    positions.backward(c, computed_layout(), d_computed);
    return query_key.backward_input(c, computed_layout(), d_computed, state.query_key);
  }

  /// The layout of the columns that this layer computes.
  [[nodiscard]] ops::head_layout computed_layout() const {
    return {
        .heads = layout.heads, .kv_heads = has_own_keys ? layout.kv_heads : 0, .dim = layout.dim};
  }

  /// The position in its sequence of the first of `rows` new rows.
  [[nodiscard]] index first_position(index rows, kv_cache<T> const& cache) const {
    return has_own_keys ? cache.length : cache.length - rows;
  }

  /// The packed rows that attention reads: the computed columns, followed by the keys and values of
  /// another layer where this layer computes none.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> packed_rows(context<Stream>& c, matrix_view<T> computed,
                                                 shared_keys<T> const* shared) const {
    if (has_own_keys) {
      if (shared != nullptr) shared->store(c, layout.kv(computed));
      return computed;
    }
    require(shared != nullptr,
            "attention: a layer without keys of its own needs those of another in saved::shared");
    auto const packed = c.template allocate<T, 2>({computed.extent(0), layout.row()});
    ops::copy(c.stream, layout.q(packed), ops::rows_view<T const>(computed));
    ops::copy(c.stream, layout.kv(packed), ops::rows_view<T const>(shared->rows));
    return packed;
  }

  /// The gradient of the columns that this layer computes, from the gradient `d_packed` of the rows
  /// that attention read. The gradient of shared keys is accumulated in `shared`.
  template <class Stream>
  [[nodiscard]] matrix_view<T> computed_gradient(context<Stream>& c, matrix_view<T> d_packed,
                                                 shared_keys<T>* shared) const {
    if (shared == nullptr) return d_packed;
    shared->add_gradient(c, layout.kv(d_packed));
    if (has_own_keys) {
      ops::copy(c.stream, layout.kv(d_packed), ops::rows_view<T const>(shared->gradient));
      return d_packed;
    }
    auto const d_computed = c.template allocate<T, 2>({d_packed.extent(0), layout.width()});
    ops::copy(c.stream, ops::rows_view<T>(d_computed), ops::rows_view<T const>(layout.q(d_packed)));
    return d_computed;
  }

  template <class Stream>
  [[nodiscard]] ops::attention_options options(context<Stream> const& c) const {
    auto result = scores;
    result.alibi_slopes = slopes;
    if (c.mode != pass::training) result.dropout.probability = 0.0F;
    if (result.dropout.probability > 0.0F) result.dropout.random = c.random(dropout_operation);
    result.dropout.first_sequence = c.run_position.first_sequence;
    result.document_begins = c.document_begins;
    return result;
  }

  /// The attended values of new rows, which attend to the cached rows too. Appends the keys and
  /// values of the new rows to the caches, if this layer computes them.
  template <class Stream>
  [[nodiscard]] matrix_view<T> attend_cached(context<Stream>& c, matrix_view<T> computed,
                                             std::span<kv_cache<T>> caches) const {
    require(computed.extent(0) == static_cast<index>(caches.size()) * c.sequence,
            "attention: ", caches.size(), " KV caches for ", computed.extent(0),
            " rows of sequences of ", c.sequence);
    auto const values_of_rows = c.template allocate<T, 2>({computed.extent(0), layout.width()});
    for (index row = 0; auto& cache : caches) {
      index const end = row + c.sequence;
      auto const rows = computed.slice(row, end);
      auto const values = ops::rows_view<T>(values_of_rows.slice(row, end));
      positions.forward(c, computed_layout(), rows, first_position(c.sequence, cache),
                        cache.rows.extent(0));
      matrix_view<T const> const packed = rows;
      if (has_own_keys) cache.append(c.stream, layout, packed);
      ops::attention(c.stream, layout.split(values, c.sequence), tensor_view<accumulate_t<T>, 3>{},
                     layout.split(layout.q(packed), c.sequence), cache.keys(layout),
                     cache.values(layout), options(c));
      row = end;
    }
    return values_of_rows;
  }
};

}  // namespace parallel::context_parallel
