// MPT's self-attention: projection to Q | K | V, optional clipping, norms of queries and keys,
// temperature and rotary positions, causal attention, and the output projection.
//
// Legend: R rows = sequences × length, D width, H heads. The packed rows [Q | K | V] of the
// projection are attended to in place, without a transpose.
#pragma once

#include <vector>

#include <mpt/model/head_layout.hpp>
#include <mpt/model/kv_cache.hpp>
#include <mpt/model/qkv_projection.hpp>
#include <mpt/model/query_key_norm.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/rope.hpp>
#include <parallel/ops/temperature.hpp>

namespace mpt {

/// Keeps the packed projections (twice with norms of q and k), the attended values, and one number
/// per row and head.
template <class T>
struct attention {
  using element = T;

  qkv_projection<T> qkv;        // [row of the layout, D]
  query_key_norm<T> query_key;  // of q and k, or absent
  linear<T> out;                // "out_proj": [D, D]
  head_layout layout;           // of packed rows: the heads that are here
  index first_head = 0;         // of all query heads, the first that is here
  index all_heads = 0;          // how many there are in all; 0: those here
  double scale = 1.0;           // of q·k
  double softcap = 0.0;         // scores become c tanh(score / c); 0: not
  index window = -1;            // keys before its own that a query sees; negative: all
  float dropout = 0.0F;         // of attention probabilities
  std::uint32_t dropout_operation = 0;
  std::vector<float> slopes;       // ALiBi, one per head; empty: none
  std::vector<double> rotations;   // rope's frequencies, one per pair of a head; empty: none
  double temperature = 0.0;        // how queries grow with their position; 0: not
  double temperature_floor = 1.0;  // in steps of so many positions

  struct saved {
    typename qkv_projection<T>::saved qkv;
    typename query_key_norm<T>::saved query_key;
    typename linear<T>::saved out;
    matrix_view<T> attended;              // [R, row]: what attention reads
    matrix_view<T> values;                // [R, D]: what it gives
    tensor_view<accumulate_t<T>, 3> lse;  // [B, H, S]
    kv_cache<T>* cache = nullptr;         // set for generation: attends to the cached rows too
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    auto const projected = qkv.forward(c, x, kept.qkv);
    kept.attended = query_key.forward(c, layout, projected, kept.query_key);
    index const first = kept.cache == nullptr ? 0 : kept.cache->length;
    warm(c, kept.attended, first);
    if (!rotations.empty())
      ops::rope(c.stream, layout.split(layout.qk(kept.attended), c.sequence),
                {.frequencies = rotations, .first = first});
    kept.values = c.template allocate<T, 2>({x.extent(0), layout.width()});
    attend(c, kept);
    return out.forward(c, kept.values, kept.out);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    auto const split = [&](auto rows) { return layout.split(rows, c.sequence); };
    matrix_view<T const> const d_values = out.backward_input(c, dy, kept.out);
    auto const d_attended = c.template allocate<T, 2>(kept.attended.extents());
    matrix_view<T const> const attended = kept.attended;
    ops::attention_backward(c.stream, split(layout.q(d_attended)), split(layout.k(d_attended)),
                            split(layout.v(d_attended)), split(ops::rows_view<T const>(d_values)),
                            split(layout.q(attended)), split(layout.k(attended)),
                            split(layout.v(attended)), split(ops::rows_view<T const>(kept.values)),
                            kept.lse, options(c));
    if (!rotations.empty())
      ops::rope_backward(c.stream, split(layout.qk(d_attended)), {.frequencies = rotations});
    warm(c, d_attended, 0);
    return qkv.backward_input(c, query_key.backward_input(c, layout, d_attended, kept.query_key),
                              kept.qkv);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    out.backward_weight(c, kept.out);
    qkv.backward_weight(c, kept.qkv);
    query_key.backward_weight(c, kept.query_key);
  }

  void visit_parameters(auto&& visit) {
    qkv.visit_parameters(visit);
    query_key.visit_parameters(visit);
    out.visit_parameters(visit);
  }

 private:
  template <class Stream>
  [[nodiscard]] ops::attention_options options(context<Stream> const& c) const {
    return {.scale = scale,
            .alibi_slopes = slopes,
            .dropout = {.probability = c.mode == pass::training ? dropout : 0.0F,
                        .random = c.random(dropout_operation),
                        .first_sequence = c.where.first_sequence,
                        .first_head = first_head,
                        .heads = all_heads},
            .softcap = softcap,
            .window = window,
            .document_begins = c.document_begins};
  }

  /// Queries, or their gradients, times the temperature of their positions.
  template <class Stream>
  void warm(context<Stream>& c, matrix_view<T> packed, index first) const {
    if (temperature != 0.0)
      ops::temperature(c.stream, layout.q(packed),
                       {.scale = temperature,
                        .floor_scale = temperature_floor,
                        .sequence = c.sequence,
                        .first = first,
                        .document_begins = c.document_begins});
  }

  template <class Stream>
  void attend(context<Stream>& c, saved& kept) const {
    matrix_view<T const> const packed = kept.attended;
    auto const split = [&](auto rows) { return layout.split(rows, c.sequence); };
    auto const result = split(ops::rows_view<T>(kept.values));
    if (kept.cache != nullptr) {
      kept.cache->append(c.stream, layout, packed);
      ops::attention(c.stream, result, kept.lse, split(layout.q(packed)), kept.cache->keys(layout),
                     kept.cache->values(layout), options(c));
      return;
    }
    if (c.mode == pass::training)
      kept.lse = c.template allocate<accumulate_t<T>, 3>({result.batch, layout.heads, c.sequence});
    ops::attention(c.stream, result, kept.lse, split(layout.q(packed)), split(layout.k(packed)),
                   split(layout.v(packed)), options(c));
  }
};

}  // namespace mpt
