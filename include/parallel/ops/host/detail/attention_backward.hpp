// Attention's backward pass for one key head and the query heads that share it.
//
// With P the probabilities, D_i = dout_i·out_i: dV = Pᵀ dO, dP = dO Vᵀ, dS = P (dP - D) scale,
// dQ = dS K, dK = dSᵀ Q; P is computed anew from lse, block by block. All sums are in float and in
// a fixed order. Scratch a thread: 4 S D floats (keys, values and their gradients) and about
// 150 KiB at D = 64.
#pragma once

#include <parallel/ops/host/detail/attention_tiles.hpp>

namespace parallel::host::detail {

template <class T>
struct attention_backward {
  ops::heads_view<T> dq, dk, dv;
  ops::heads_view<T const> dout, q, k, v, out;
  tensor_view<float const, 3> lse;
  ops::attention_options options;

  struct space {
    space(index keys, index width)
        : k(padded(keys, 16) * width),
          v(padded(keys, 16) * width),
          dk(padded(keys, 16) * width),
          dv(padded(keys, 16) * width),
          q(attention_queries * width),
          dout(attention_queries * width),
          dq(attention_queries * width),
          q_columns(attention_queries * width),
          dout_columns(attention_queries * width),
          scores(attention_queries * attention_keys),
          d_scores(attention_queries * attention_keys),
          lse(attention_queries),
          own(attention_queries),
          first_keys(attention_queries) {}
    scratch<float> k, v, dk, dv;             // [keys, width]
    scratch<float> q, dout, dq;              // [queries, width]
    scratch<float> q_columns, dout_columns;  // [head_dim, queries]; q_columns scaled
    scratch<float> scores, d_scores;         // [keys, queries]: S, then P; dP, then dS
    scratch<float> lse, own;                 // [queries]; own = D
    scratch<index> first_keys;               // [queries]
  };

  [[nodiscard]] index width() const { return padded(q.head_dim, 16); }

  /// Key head `kv` of sequence b.
  template <int L>
  [[gnu::always_inline]] void run(index b, index kv, space& own) const {
    index const keys = k.sequence;
    copy_rows<L>(own.k.data(), width(), k, b, kv, 0, keys);
    copy_rows<L>(own.v.data(), width(), v, b, kv, 0, keys);
    std::fill_n(own.dk.data(), padded(keys, 16) * width(), 0.0F);
    std::fill_n(own.dv.data(), padded(keys, 16) * width(), 0.0F);
    index const group = q.heads / k.heads;
    for (index h = kv * group; h < (kv + 1) * group; ++h)
      for (index i = 0; i < q.sequence; i += attention_queries)
        queries<L>(b, h, i, std::min(attention_queries, q.sequence - i), own);
    for (index j = 0; j < keys; ++j) {
      write_row<L>(dk.row(b, j, kv), own.dk.data() + j * width());
      write_row<L>(dv.row(b, j, kv), own.dv.data() + j * width());
    }
  }

  template <int L>
  [[gnu::always_inline]] void write_row(T* to, float const* from) const {
    for (index i = 0; i < q.head_dim; i += L)
      simd::store_partial(to + i, simd::load<L>(from + i), q.head_dim - i);
  }

  template <int L>
  [[gnu::always_inline]] void queries(index b, index h, index first, index count,
                                      space& own) const {
    attention_block block{.queries = count,
                          .columns = padded(count, 16),
                          .first_query = k.sequence - q.sequence + first,
                          .slope = options.alibi_slopes.empty()
                                       ? 0.0F
                                       : options.alibi_slopes[static_cast<std::size_t>(h)],
                          .first_keys = own.first_keys.data()};
    fill_first_keys(own.first_keys.data(), options, b, q.sequence, k.sequence, first,
                    block.columns);
    prepare<L>(b, h, first, block, own);
    auto const pair = ops::detail::first_pair(options.dropout, b, h, q.heads, k.sequence);
    index const end = block.first_query + count;
    for (block.first_key = own.first_keys.data()[0] / attention_keys * attention_keys;
         block.first_key < end; block.first_key += attention_keys) {
      block.keys = std::min(attention_keys, end - block.first_key);
      pairs<L>(block, pair, own);
    }
    for (index r = 0; r < count; ++r)
      write_row<L>(dq.row(b, first + r, h), own.dq.data() + r * width());
  }

  template <int L>
  [[gnu::always_inline]] void prepare(index b, index h, index first, attention_block const& block,
                                      space& own) const {
    copy_rows<L>(own.dq.data(), width(), out, b, h, first, block.queries);  // for D only
    copy_rows<L>(own.dout.data(), width(), dout, b, h, first, block.queries);
    for (index r = 0; r < block.columns; ++r) {
      simd::pack<float, L> sum(0.0F);
      for (index i = 0; i < width(); i += L)
        sum = simd::fma(simd::load<L>(own.dq.data() + r * width() + i),
                        simd::load<L>(own.dout.data() + r * width() + i), sum);
      own.own.data()[r] = simd::sum(sum);
      own.lse.data()[r] =  // queries that are not there have no probability
          r < block.queries ? lse(b, h, first + r) : std::numeric_limits<float>::infinity();
    }
    std::fill_n(own.dq.data(), block.columns * width(), 0.0F);
    copy_rows<L>(own.q.data(), width(), q, b, h, first, block.queries);
    transpose_rows(own.q_columns.data(), block.columns, own.q.data(), width(), q.head_dim,
                   static_cast<float>(options.scale));
    transpose_rows(own.dout_columns.data(), block.columns, own.dout.data(), width(), q.head_dim,
                   1.0F);
  }

  /// One block of pairs: the five products and what lies between.
  template <int L>
  [[gnu::always_inline]] void pairs(attention_block const& block, std::uint64_t pair,
                                    space& own) const {
    index const columns = block.columns;
    index const key = block.first_key * width();
    tile forward{.rows = block.rows(),
                 .columns = columns,
                 .depth = q.head_dim,
                 .a = own.k.data() + key,
                 .a_row = width(),
                 .a_depth = 1,
                 .b = own.q_columns.data(),
                 .b_depth = columns,
                 .c = own.scores.data(),
                 .c_row = columns,
                 .limit = bounds::columns_from_row,
                 .offset = block.offset()};
    tile_product<L, tile_store::assign>(forward);  // S
    forward.a = own.v.data() + key;
    forward.b = own.dout_columns.data();
    forward.c = own.d_scores.data();
    tile_product<L, tile_store::assign>(forward);  // dP
    for (index column = 0; column < columns; column += L) softmax<L>(block, column, pair, own);
    tile backward{.rows = block.rows(),
                  .columns = width(),
                  .depth = block.queries,
                  .a = own.scores.data(),
                  .a_row = columns,
                  .a_depth = 1,
                  .b = own.dout.data(),
                  .b_depth = width(),
                  .c = own.dv.data() + key,
                  .c_row = width(),
                  .limit = bounds::depth_from_row,
                  .offset = block.offset()};
    tile_product<L, tile_store::add>(backward);  // dV
    backward.a = own.d_scores.data();
    backward.b = own.q.data();
    backward.c = own.dk.data() + key;
    tile_product<L, tile_store::add>(backward);  // dK
    tile_product<L, tile_store::add>({.rows = columns,
                                      .columns = width(),
                                      .depth = block.keys,
                                      .a = own.d_scores.data(),
                                      .a_row = 1,
                                      .a_depth = columns,
                                      .b = own.k.data() + key,
                                      .b_depth = width(),
                                      .c = own.dq.data(),
                                      .c_row = width(),
                                      .limit = bounds::depth_until_row,
                                      .offset = block.offset()});  // dQ
  }

  /// S becomes P (dropped out), dP becomes dS, for L queries.
  template <int L>
  [[gnu::always_inline]] void softmax(attention_block const& block, index column,
                                      std::uint64_t pair, space& own) const {
    using floats = simd::pack<float, L>;
    index const columns = block.columns;
    float* const scores = own.scores.data() + column;
    float* const d_scores = own.d_scores.data() + column;
    auto const rows = block.rows_of<L>(column);
    floats const distance = counting<L>(block.offset() + column);
    floats const reach = block.reach<L>(column);
    floats const slope(-block.slope);
    floats const scale(static_cast<float>(options.scale));
    floats const log_total = simd::load<L>(own.lse.data() + column);
    floats const row_sum = simd::load<L>(own.own.data() + column);
    bool const dropped = options.dropout.active();
    bool const capped = options.softcap > 0.0;
    floats const limit(static_cast<float>(options.softcap));
    for (index j = rows.begin; j < rows.end; ++j) {
      floats const apart = distance - floats(static_cast<float>(j));
      floats score = simd::load<L>(scores + j * columns);
      floats derivative = scale;
      if (capped) [[unlikely]] {
        floats const t = simd::tanh(score / limit);
        score = limit * t;
        derivative = scale * (floats(1.0F) - t * t);
      }
      floats probability = simd::exp(simd::fma(slope, apart, score) - log_total);
      if (j < rows.all_begin || j >= rows.all_end)
        probability = where_seen<L>(apart, reach, probability, 0.0F);
      floats d_probability = simd::load<L>(d_scores + j * columns);
      if (dropped) [[unlikely]] {
        floats const factors = dropout_factors<L>(options.dropout, pair, k.sequence,
                                                  block.first_query + column, block.first_key + j);
        d_probability *= factors;
        simd::store(scores + j * columns, probability * factors);
      } else {
        simd::store(scores + j * columns, probability);
      }
      simd::store(d_scores + j * columns, probability * derivative * (d_probability - row_sum));
    }
    for (float* const tile : {scores, d_scores}) {
      clear_rows<L>(tile, columns, 0, rows.begin);
      clear_rows<L>(tile, columns, rows.end, block.rows());
    }
  }
};

}  // namespace parallel::host::detail
