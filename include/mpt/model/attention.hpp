// MPT's self-attention: one fused projection to Q | K | V, optional clipping and normalisation of
// queries and keys, causal attention with or without ALiBi, and the output projection.
//
// Legend: R rows = sequences × length, D width, H heads. The packed [R, 3D] result of the
// projection is attended to in place, without a transpose.
#pragma once

#include <vector>

#include <mpt/vocabulary.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/elementwise.hpp>

namespace mpt {

using parallel::linear;
using parallel::norm;

/// Packed Q | K | V rows of the tokens so far, of one block and one sequence (generation).
template <class T>
struct kv_cache {
  matrix_view<T> rows;  // [capacity, 3D]
  index length = 0;     // rows in use
};

/// Keeps the packed projections (twice with qk_ln), the attended values, one number per row and
/// head, and with clip_qkv one byte per projected element.
template <class T>
struct attention {
  using element = T;

  linear<T> qkv;           // "Wqkv": [3D, D]
  linear<T> out;           // "out_proj": [D, D]
  norm<T> q_norm, k_norm;  // [D] each, over all heads; absent without qk_ln
  index heads = 1;
  double scale = 1.0;    // of q·k
  float clip = 0.0F;     // projections are clamped to [-clip, clip]; 0: not
  float dropout = 0.0F;  // of attention probabilities
  std::uint32_t dropout_operation = 0;
  std::vector<float> slopes;  // ALiBi, one per head; empty: none

  struct saved {
    typename linear<T>::saved qkv, out;
    typename norm<T>::saved q_norm, k_norm;
    matrix_view<T> projected;             // [R, 3D] after clipping
    matrix_view<T> attended;              // [R, 3D] after qk_ln; the same view without it
    matrix_view<T> values;                // [R, D] attention's result
    matrix_view<T> d_attended;            // [R, 3D]
    vector_view<std::uint8_t> inside;     // [R * 3D] where clipping left the value alone
    tensor_view<accumulate_t<T>, 3> lse;  // [B, H, S]
    kv_cache<T>* cache = nullptr;         // set for generation: attends to the cached rows too
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    kept.projected = qkv.forward(c, x, kept.qkv);
    if (clip > 0.0F) {
      if (c.mode == pass::training)
        kept.inside = c.template allocate<std::uint8_t, 1>({kept.projected.size()});
      ops::clip(c.stream, kept.projected.span(), kept.inside.span(), clip);
    }
    normalise(c, kept);
    kept.values = c.template allocate<T, 2>({x.extent(0), width()});
    attend(c, kept);
    return out.forward(c, kept.values, kept.out);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept) const {
    auto const d_values = out.backward_input(c, dy, kept.out);
    kept.d_attended = c.template allocate<T, 2>(kept.attended.extents());
    matrix_view<T const> const attended = kept.attended;
    ops::attention_backward(
        c.stream, heads_of(c, kept.d_attended, 0), heads_of(c, kept.d_attended, 1),
        heads_of(c, kept.d_attended, 2), heads_of(c, matrix_view<T const>(d_values), 0),
        heads_of(c, attended, 0), heads_of(c, attended, 1), heads_of(c, attended, 2),
        heads_of(c, matrix_view<T const>(kept.values), 0), kept.lse, options(c));
    auto d_projected = kept.d_attended;
    if (q_norm.weight.present()) {
      d_projected = c.template allocate<T, 2>(kept.projected.extents());
      ops::copy(c.stream, d_projected.span(), std::span<T const>(kept.d_attended.span()));
      matrix_view<T const> const d_normal = kept.d_attended;
      q_norm.backward_input_into(c, part_of(d_projected, 0), part_of(d_normal, 0), kept.q_norm);
      k_norm.backward_input_into(c, part_of(d_projected, 1), part_of(d_normal, 1), kept.k_norm);
    }
    if (clip > 0.0F)
      ops::clip_backward(c.stream, d_projected.span(),
                         std::span<std::uint8_t const>(kept.inside.span()));
    return qkv.backward_input(c, d_projected, kept.qkv);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    out.backward_weight(c, kept.out);
    qkv.backward_weight(c, kept.qkv);
    if (!q_norm.weight.present()) return;
    q_norm.backward_weight(c, kept.q_norm);
    k_norm.backward_weight(c, kept.k_norm);
  }

  void visit_parameters(auto&& visit) {
    qkv.visit_parameters(visit);
    if (q_norm.weight.present()) {
      q_norm.visit_parameters(visit);
      k_norm.visit_parameters(visit);
    }
    out.visit_parameters(visit);
  }

 private:
  [[nodiscard]] index width() const { return out.weight.extents[1]; }

  /// Columns [part·D, (part+1)·D) of a packed matrix: part 0 is Q, 1 is K, 2 is V.
  template <class U>
  [[nodiscard]] ops::rows_view<U> part_of(matrix_view<U> packed, int part) const {
    return {packed.data() == nullptr ? nullptr : packed.data() + part * width(), packed.extent(0),
            width(), packed.extent(1)};
  }

  /// The same columns as [B, S, H, D/H].
  template <class Stream, class U>
  [[nodiscard]] ops::heads_view<U> heads_of(context<Stream> const& c, matrix_view<U> packed,
                                            int part) const {
    index const stride = packed.extent(1);
    return {.data = part_of(packed, part).data,
            .batch = packed.extent(0) / c.sequence,
            .sequence = c.sequence,
            .heads = heads,
            .head_dim = width() / heads,
            .batch_stride = c.sequence * stride,
            .row_stride = stride};
  }

  template <class Stream>
  [[nodiscard]] ops::attention_options options(context<Stream> const& c) const {
    return {.scale = scale,
            .alibi_slopes = slopes,
            .dropout = {.probability = c.mode == pass::training ? dropout : 0.0F,
                        .random = c.random(dropout_operation),
                        .first_sequence = c.where.first_sequence}};
  }

  template <class Stream>
  void normalise(context<Stream>& c, saved& kept) const {
    kept.attended = kept.projected;
    if (!q_norm.weight.present()) return;
    kept.attended = c.template allocate<T, 2>(kept.projected.extents());
    ops::copy(c.stream, kept.attended.span(), std::span<T const>(kept.projected.span()));
    matrix_view<T const> const x = kept.projected;
    q_norm.forward_into(c, part_of(kept.attended, 0), part_of(x, 0), kept.q_norm);
    k_norm.forward_into(c, part_of(kept.attended, 1), part_of(x, 1), kept.k_norm);
  }

  template <class Stream>
  void attend(context<Stream>& c, saved& kept) const {
    auto result = heads_of(c, kept.values, 0);
    auto const query = heads_of(c, matrix_view<T const>(kept.attended), 0);
    if (kept.cache == nullptr) {
      if (c.mode == pass::training)
        kept.lse = c.template allocate<accumulate_t<T>, 3>({result.batch, heads, c.sequence});
      matrix_view<T const> const attended = kept.attended;
      ops::attention(c.stream, result, kept.lse, query, heads_of(c, attended, 1),
                     heads_of(c, attended, 2), options(c));
      return;
    }
    auto& cache = *kept.cache;
    index const begin = cache.length;
    index const end = begin + kept.attended.extent(0);
    require(end <= cache.rows.extent(0), "the KV cache holds ", cache.rows.extent(0),
            " tokens, but ", end, " are needed");
    ops::copy(c.stream, cache.rows.slice(begin, end).span(),
              std::span<T const>(kept.attended.span()));
    cache.length = end;
    context<Stream> whole{c.stream, c.memory, c.mode, c.where, end};
    matrix_view<T const> const rows = cache.rows.slice(0, end);
    ops::attention(c.stream, result, kept.lse, query, heads_of(whole, rows, 1),
                   heads_of(whole, rows, 2), options(c));
  }
};

}  // namespace mpt
