// Attention's backward pass for one key head and the query heads that share it.
//
// With P the probabilities, D_i = dout_i·out_i: dV = Pᵀ dO, dP = dO Vᵀ, dS = P (dP - D) scale,
// dQ = dS K, dK = dSᵀ Q; P is computed anew from lse, block by block. All sums are in float and in
// a fixed order. Some blocks of queries go over the keys together, so that keys, values and their
// gradients come from a cache that is near. Scratch a thread: 4 S D floats (keys, values and their
// gradients) and about 450 KiB at D = 64.
#pragma once

#include <parallel/ops/host/detail/attention_tiles.hpp>

namespace parallel::host::detail {

/// E: what the products are made of, float or (T is bf16) bf16_pair; O: what gradients are kept as.
template <class T, class E = float, class O = T>
struct attention_backward {
  static constexpr index step = depth_of<E>;
  static constexpr index blocks_together = 4;  // of queries
  static constexpr index together = blocks_together * attention_queries;

  ops::heads_view<O> dq, dk, dv;
  ops::heads_view<T const> dout, q, k, v, out;
  tensor_view<float const, 3> lse;
  ops::attention_options options;
  bool adds = false;  // to what dq, dk and dv hold
  multiplier by = fastest_multiplier<E>();

  struct space {
    space(arena& memory, index keys, index width)
        : k(memory, keys, width, {.by_row = true, .by_column = true}),
          v(memory, keys, width, {.by_row = true}),
          q(memory, together, width, {.by_row = true, .by_depth = true}),
          dout(memory, together, width, {.by_row = true, .by_depth = true}),
          weights(memory, in_place ? 0 : attention_keys, attention_queries, {.by_row = true}),
          d_weights(memory, in_place ? 0 : attention_keys, attention_queries,
                    {.by_row = true, .by_depth = true}),
          q_columns(memory, together * width / step),
          dout_columns(memory, together * width / step),
          dk(memory, padded(keys, attention_keys) * width),
          dv(memory, padded(keys, attention_keys) * width),
          sum(memory, together * width),
          dq(memory, attention_queries * width),
          scores(memory, attention_queries * attention_keys),
          d_scores(memory, attention_queries * attention_keys),
          lse(memory, together),
          own(memory, together),
          first_keys(memory, together) {}
    static constexpr bool in_place = std::is_same_v<E, float>;
    operand_matrix<E> k, v;                // [keys, width]
    operand_matrix<E> q, dout;             // [together, width]
    operand_matrix<E> weights, d_weights;  // [keys, queries]: P, dS
    scratch<E> q_columns, dout_columns;    // [width, queries] of each block
    scratch<float> dk, dv;                 // [keys, width]
    scratch<float> sum;                    // [width, queries] of each block: dQ turned over
    scratch<float> dq;                     // [queries, width]
    scratch<float> scores, d_scores;       // [keys, queries]: S, then P; dP, then dS
    scratch<float> lse, own;               // [together]; own = D
    scratch<index> first_keys;             // [together]
  };

  [[nodiscard]] index width() const { return padded(q.head_dim, depth_step<E>); }
  [[nodiscard]] ops::detail::positioned_attention placed() const {
    return {options, q.sequence, k.sequence};
  }

  /// Key head `kv` of sequence b.
  template <int L>
  [[gnu::always_inline]] void run(index b, index kv, space& own) const {
    tile_shapes const shapes(by);
    index const keys = k.sequence;
    own.k.template fill<L>(0, k, b, kv, 0, keys);
    own.v.template fill<L>(0, v, b, kv, 0, keys);
    std::fill_n(own.dk.data(), padded(keys, attention_keys) * width(), 0.0F);
    std::fill_n(own.dv.data(), padded(keys, attention_keys) * width(), 0.0F);
    index const group = q.heads / k.heads;
    for (index h = kv * group; h < (kv + 1) * group; ++h)
      for (index i = 0; i < q.sequence; i += together)
        queries<L>(b, h, i, std::min(together, q.sequence - i), own);
    for (index j = 0; j < keys; ++j) {
      write_row<L>(dk.row(b, j, kv), own.dk.data() + j * width(), q.head_dim, adds);
      write_row<L>(dv.row(b, j, kv), own.dv.data() + j * width(), q.head_dim, adds);
    }
  }

  /// Queries [first, first + count) of head h.
  template <int L>
  [[gnu::always_inline]] void queries(index b, index h, index first, index count,
                                      space& own) const {
    auto const placed = this->placed();
    attention_block blocks[blocks_together];
    for (index at = 0; at < count; at += attention_queries)
      blocks[at / attention_queries] =
          prepare<L>(b, h, first, at, std::min(attention_queries, count - at), own);
    auto const pair = placed.first_pair(b, h, q.heads);
    index const end = placed.end_key(first + count);
    for (index key = own.first_keys.data()[0] / attention_keys * attention_keys; key < end;
         key += attention_keys)
      for (index at = 0; at < count; at += attention_queries) {
        attention_block& block = blocks[at / attention_queries];
        block.first_key = key;
        block.keys = std::min(attention_keys, placed.end_key(first + at + block.queries) - key);
        block.rows = padded(block.keys, depth_step<E>);
        if (block.keys > 0 && block.first_keys[0] < key + attention_keys)
          pairs<L>(block, at, pair, own);
      }
    for (index at = 0; at < count; at += attention_queries) {
      attention_block const& block = blocks[at / attention_queries];
      transpose<L>(own.dq.data(), width(), own.sum.data() + at * width(), block.columns,
                   padded(q.head_dim, 16), block.columns);
      for (index r = 0; r < block.queries; ++r)
        write_row<L>(dq.row(b, first + at + r, h), own.dq.data() + r * width(), q.head_dim, adds);
    }
  }

  /// The block of `count` queries from first + at on; its place in `own` begins at `at`.
  template <int L>
  [[gnu::always_inline]] attention_block prepare(index b, index h, index first, index at,
                                                 index count, space& own) const {
    attention_block const block{.queries = count,
                                .columns = padded(count, depth_step<E>),
                                .first_query = placed().at(first + at),
                                .slope = options.alibi_slopes.empty()
                                             ? 0.0F
                                             : options.alibi_slopes[static_cast<std::size_t>(h)],
                                .first_keys = own.first_keys.data() + at};
    fill_first_keys(own.first_keys.data() + at, placed(), b, first + at, block.columns);
    own.q.template fill<L>(at, q, b, h, first + at, count);
    own.dout.template fill<L>(at, dout, b, h, first + at, count);
    auto const turn = [&](E * to, left_operand<E> from) __attribute__((always_inline)) {
      transpose<L>(to + at * width() / step, block.columns, from.data, from.row, block.columns,
                   width() / step);
    };
    turn(own.q_columns.data(), own.q.by_row(at));
    turn(own.dout_columns.data(), own.dout.by_row(at));
    std::fill_n(own.sum.data() + at * width(), width() * block.columns, 0.0F);
    for (index r = 0; r < block.columns; ++r) {
      bool const real = r < count;  // others have no probability
      index const i = first + at + r;
      own.lse.data()[at + r] = real ? lse(b, h, i) : std::numeric_limits<float>::infinity();
      own.own.data()[at + r] = real ? dot<L>(out.row(b, i, h), dout.row(b, i, h)) : 0.0F;
    }
    return block;
  }

  template <int L>
  [[gnu::always_inline]] float dot(T const* x, T const* y) const {
    simd::pack<float, L> sum(0.0F);
    for (index i = 0; i < q.head_dim; i += L)
      sum = simd::fma(simd::load_partial<L>(x + i, q.head_dim - i),
                      simd::load_partial<L>(y + i, q.head_dim - i), sum);
    return simd::sum(sum);
  }

  /// One block of pairs: the five products and what lies between. Queries are at `at` in `own`.
  template <int L>
  [[gnu::always_inline]] void pairs(attention_block const& block, index at, std::uint64_t pair,
                                    space& own) const {
    index const columns = block.columns;
    index const key = block.first_key;
    auto left = own.k.by_row(key);
    tile_of<E> forward{.rows = block.rows,
                       .columns = columns,
                       .depth = (q.head_dim + step - 1) / step,
                       .a = left.data,
                       .a_row = left.row,
                       .a_depth = left.depth,
                       .b = own.q_columns.data() + at * width() / step,
                       .b_depth = columns,
                       .c = own.scores.data(),
                       .c_row = columns,
                       .limit = bounds::columns_from_row,
                       .offset = block.offset()};
    tile_product<L, tile_store::assign>(by, forward);  // S
    forward.a = own.v.by_row(key).data;
    forward.b = own.dout_columns.data() + at * width() / step;
    forward.c = own.d_scores.data();
    tile_product<L, tile_store::assign>(by, forward);  // dP
    for (index column = 0; column < columns; column += L) softmax<L>(block, at, column, pair, own);
    own.weights.template narrow<L>(own.scores.data(), block.rows, columns);
    own.d_weights.template narrow<L>(own.d_scores.data(), block.rows, columns);
    left = own.weights.by_row(0);
    tile_of<E> backward{.rows = block.rows,
                        .columns = padded(q.head_dim, 16),
                        .depth = (block.queries + step - 1) / step,
                        .a = left.data,
                        .a_row = left.row,
                        .a_depth = left.depth,
                        .b = own.dout.by_depth(at),
                        .b_depth = width(),
                        .c = own.dv.data() + key * width(),
                        .c_row = width(),
                        .limit = bounds::depth_from_row,
                        .offset = block.offset()};
    tile_product<L, tile_store::add>(by, backward);  // dV
    backward.a = own.d_weights.by_row(0).data;
    backward.b = own.q.by_depth(at);
    backward.c = own.dk.data() + key * width();
    tile_product<L, tile_store::add>(by, backward);  // dK
    left = own.k.by_column(key);
    tile_product<L, tile_store::add>(by, tile_of<E>{.rows = padded(q.head_dim, 16),
                                                    .columns = columns,
                                                    .depth = (block.keys + step - 1) / step,
                                                    .a = left.data,
                                                    .a_row = left.row,
                                                    .a_depth = left.depth,
                                                    .b = own.d_weights.by_depth(0),
                                                    .b_depth = columns,
                                                    .c = own.sum.data() + at * width(),
                                                    .c_row = columns,
                                                    .limit = bounds::depth_until_column,
                                                    .offset = block.offset()});  // dQ
  }

  /// S becomes P (dropped out), dP becomes dS, for L queries.
  template <int L>
  [[gnu::always_inline]] void softmax(attention_block const& block, index at, index column,
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
    floats const log_total = simd::load<L>(own.lse.data() + at + column);
    floats const row_sum = simd::load<L>(own.own.data() + at + column);
    bool const dropped = options.dropout.active();
    dropout_columns<L> drop(options.dropout, pair, placed().positions.sequence_length,
                            block.first_query + column);
    bool const capped = options.softcap > 0.0;
    floats const limit(static_cast<float>(options.softcap));
    floats apart = distance - counting<L>(rows.begin, 0);
    for (index j = rows.begin; j < rows.end; ++j, apart = apart - floats(1.0F)) {
      floats score = scale * simd::load<L>(scores + j * columns);
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
        floats const factors = drop.factors(block.first_key + j);
        d_probability *= factors;
        simd::store(scores + j * columns, probability * factors);
      } else {
        simd::store(scores + j * columns, probability);
      }
      simd::store(d_scores + j * columns, probability * derivative * (d_probability - row_sum));
    }
    for (float* const each : {scores, d_scores}) {
      clear_rows<L>(each, columns, 0, rows.begin);
      clear_rows<L>(each, columns, rows.end, block.rows);
    }
  }
};

}  // namespace parallel::host::detail
