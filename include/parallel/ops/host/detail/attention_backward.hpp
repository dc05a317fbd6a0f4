// Attention's backward pass for one key head and the query heads that share it.
//
// With P the probabilities and D_i = dout_i·out_i: dV = Pᵀ dO, dP = dO Vᵀ, dS = P (dP - D) scale,
// dQ = dS K, dK = dSᵀ Q. P is recomputed from lse, block by block. All sums are in float and in a
// fixed order. Several blocks of queries are processed for each block of keys, so that keys, values
// and their gradients come from a near cache. Scratch per thread: 4 S D floats (keys, values and
// their gradients) and about 450 KiB at D = 64.
#pragma once

#include <parallel/ops/host/detail/attention_tiles.hpp>

namespace parallel::host::detail {

/// E: the operand type of the products, float or (T is bf16) bf16_pair.
template <class T, class E = float, bool Extends = false>
struct attention_backward : ops::basic_attention_backward_arguments<T, Extends> {
  using arguments = ops::basic_attention_backward_arguments<T, Extends>;
  using arguments::dq, arguments::dk, arguments::dv, arguments::dout, arguments::q, arguments::k,
      arguments::v, arguments::out, arguments::lse, arguments::options;

  // positions along the depth of a product that one E holds: 1, or 2 for a pair
  static constexpr index depths_per_element = depth_of<E>;
  static constexpr index blocks_together = 4;  // blocks of queries per block of keys
  static constexpr index together = blocks_together * attention_queries;

  multiplier method = fastest_multiplier<E>();

  struct space {
    space(arena& memory, index keys, index width)
        : k(memory, keys, width, {.by_row = true, .by_column = true}),
          v(memory, keys, width, {.by_row = true}),
          q(memory, together, width, {.by_row = true, .by_depth = true}),
          dout(memory, together, width, {.by_row = true, .by_depth = true}),
          weights(memory, in_place ? 0 : attention_keys, attention_queries, {.by_row = true}),
          d_weights(memory, in_place ? 0 : attention_keys, attention_queries,
                    {.by_row = true, .by_depth = true}),
          q_columns(memory, together * width / depths_per_element),
          dout_columns(memory, together * width / depths_per_element),
          dk(memory, padded(keys, attention_keys) * width),
          dv(memory, padded(keys, attention_keys) * width),
          sum(memory, together * width),
          dq(memory, attention_queries * width),
          scores(memory, attention_queries * attention_keys),
          d_scores(memory, attention_queries * attention_keys),
          lse(memory, together),
          row_dots(memory, together),
          first_keys(memory, together) {}
    static constexpr bool in_place = std::is_same_v<E, float>;
    operand_matrix<E> k, v;                // [keys, width]
    operand_matrix<E> q, dout;             // [together, width]
    operand_matrix<E> weights, d_weights;  // [keys, queries]: P, dS
    scratch<E> q_columns, dout_columns;    // [width, queries] of each block
    scratch<float> dk, dv;                 // [keys, width]
    scratch<float> sum;                    // [width, queries] of each block: dQ transposed
    scratch<float> dq;                     // [queries, width]
    scratch<float> scores, d_scores;       // [keys, queries]: S, then P; dP, then dS
    scratch<float> lse, row_dots;          // [together]; row_dots = D
    scratch<index> first_keys;             // [together]
  };

  [[nodiscard]] index width() const { return padded(q.head_dim, depth_step<E>); }
  [[nodiscard]] ops::detail::positioned_attention positioned() const {
    return {options, q.sequence, k.sequence};
  }

  /// The gradients of key head `kv` of sequence b, and of its query heads.
  template <int L>
  [[gnu::always_inline]] void run(index b, index kv, space& buffers) const {
    tile_shapes const shapes(method);
    index const keys = k.sequence;
    buffers.k.template fill<L>(0, k, b, kv, 0, keys);
    buffers.v.template fill<L>(0, v, b, kv, 0, keys);
    std::fill_n(buffers.dk.data(), padded(keys, attention_keys) * width(), 0.0F);
    std::fill_n(buffers.dv.data(), padded(keys, attention_keys) * width(), 0.0F);
    index const group = q.heads / k.heads;
    for (index h = kv * group; h < (kv + 1) * group; ++h)
      for (index i = 0; i < q.sequence; i += together)
        queries<L>(b, h, i, std::min(together, q.sequence - i), buffers);
    for (index j = 0; j < keys; ++j) {
      write_row<L>(dk.row(b, j, kv), buffers.dk.data() + j * width(), q.head_dim, Extends);
      write_row<L>(dv.row(b, j, kv), buffers.dv.data() + j * width(), q.head_dim, Extends);
    }
  }

  /// Processes queries [first, first + count) of head h.
  template <int L>
  [[gnu::always_inline]] void queries(index b, index h, index first, index count,
                                      space& buffers) const {
    auto const positioned = this->positioned();
    attention_block blocks[blocks_together];
    for (index row = 0; row < count; row += attention_queries)
      blocks[row / attention_queries] =
          prepare<L>(b, h, first, row, std::min(attention_queries, count - row), buffers);
    auto const first_pair = positioned.first_pair(b, h, q.heads);
    index const end = positioned.end_key(first + count);
    for (index key = buffers.first_keys.data()[0] / attention_keys * attention_keys; key < end;
         key += attention_keys)
      for (index row = 0; row < count; row += attention_queries) {
        attention_block& block = blocks[row / attention_queries];
        block.first_key = key;
        block.keys =
            std::min(attention_keys, positioned.end_key(first + row + block.queries) - key);
        block.rows = padded(block.keys, depth_step<E>);
        if (block.keys > 0 && block.first_keys[0] < key + attention_keys)
          pairs<L>(block, row, first_pair, buffers);
      }
    for (index row = 0; row < count; row += attention_queries) {
      attention_block const& block = blocks[row / attention_queries];
      transpose<L>(buffers.dq.data(), width(), buffers.sum.data() + row * width(), block.columns,
                   padded(q.head_dim, 16), block.columns);
      for (index r = 0; r < block.queries; ++r)
        write_row<L>(dq.row(b, first + row + r, h), buffers.dq.data() + r * width(), q.head_dim,
                     Extends);
    }
  }

  /// Prepares the block of `count` queries from first + row on; its rows in `buffers` begin at
  /// `row`.
  template <int L>
  [[gnu::always_inline]] attention_block prepare(index b, index h, index first, index row,
                                                 index count, space& buffers) const {
    attention_block const block{.queries = count,
                                .columns = padded(count, depth_step<E>),
                                .first_query = positioned().query_position(first + row),
                                .slope = options.alibi_slopes.empty()
                                             ? 0.0F
                                             : options.alibi_slopes[static_cast<std::size_t>(h)],
                                .first_keys = buffers.first_keys.data() + row};
    fill_first_keys(buffers.first_keys.data() + row, positioned(), b, first + row, block.columns);
    buffers.q.template fill<L>(row, q, b, h, first + row, count);
    buffers.dout.template fill<L>(row, dout, b, h, first + row, count);
    auto const transpose_columns = [&](E * to, left_operand<E> from)
        __attribute__((always_inline)) {
      transpose<L>(to + row * width() / depths_per_element, block.columns, from.data, from.row,
                   block.columns, width() / depths_per_element);
    };
    transpose_columns(buffers.q_columns.data(), buffers.q.by_row(row));
    transpose_columns(buffers.dout_columns.data(), buffers.dout.by_row(row));
    std::fill_n(buffers.sum.data() + row * width(), width() * block.columns, 0.0F);
    for (index r = 0; r < block.columns; ++r) {
      bool const is_query = r < count;  // padding rows have no probability
      index const i = first + row + r;
      buffers.lse.data()[row + r] =
          is_query ? lse(b, h, i) : std::numeric_limits<float>::infinity();
      buffers.row_dots.data()[row + r] =
          is_query ? dot<L>(out.row(b, i, h), dout.row(b, i, h)) : 0.0F;
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

  /// Processes one block of pairs: the five products and the steps between. The queries begin at
  /// `row` in `buffers`.
  template <int L>
  [[gnu::always_inline]] void pairs(attention_block const& block, index row,
                                    std::uint64_t first_pair, space& buffers) const {
    index const columns = block.columns;
    index const key = block.first_key;
    auto left = buffers.k.by_row(key);
    tile_of<E> forward{.rows = block.rows,
                       .columns = columns,
                       .depth = (q.head_dim + depths_per_element - 1) / depths_per_element,
                       .a = left.data,
                       .a_row = left.row,
                       .a_depth = left.depth,
                       .b = buffers.q_columns.data() + row * width() / depths_per_element,
                       .b_depth = columns,
                       .c = buffers.scores.data(),
                       .c_row = columns,
                       .limit = bounds::columns_from_row,
                       .offset = block.offset()};
    tile_product<L, tile_store::assign>(method, forward);  // S
    forward.a = buffers.v.by_row(key).data;
    forward.b = buffers.dout_columns.data() + row * width() / depths_per_element;
    forward.c = buffers.d_scores.data();
    tile_product<L, tile_store::assign>(method, forward);  // dP
    for (index column = 0; column < columns; column += L)
      softmax<L>(block, row, column, first_pair, buffers);
    buffers.weights.template narrow<L>(buffers.scores.data(), block.rows, columns);
    buffers.d_weights.template narrow<L>(buffers.d_scores.data(), block.rows, columns);
    left = buffers.weights.by_row(0);
    tile_of<E> backward{.rows = block.rows,
                        .columns = padded(q.head_dim, 16),
                        .depth = (block.queries + depths_per_element - 1) / depths_per_element,
                        .a = left.data,
                        .a_row = left.row,
                        .a_depth = left.depth,
                        .b = buffers.dout.by_depth(row),
                        .b_depth = width(),
                        .c = buffers.dv.data() + key * width(),
                        .c_row = width(),
                        .limit = bounds::depth_from_row,
                        .offset = block.offset()};
    tile_product<L, tile_store::add>(method, backward);  // dV
    backward.a = buffers.d_weights.by_row(0).data;
    backward.b = buffers.q.by_depth(row);
    backward.c = buffers.dk.data() + key * width();
    tile_product<L, tile_store::add>(method, backward);  // dK
    left = buffers.k.by_column(key);
    tile_product<L, tile_store::add>(
        method, tile_of<E>{.rows = padded(q.head_dim, 16),
                           .columns = columns,
                           .depth = (block.keys + depths_per_element - 1) / depths_per_element,
                           .a = left.data,
                           .a_row = left.row,
                           .a_depth = left.depth,
                           .b = buffers.d_weights.by_depth(0),
                           .b_depth = columns,
                           .c = buffers.sum.data() + row * width(),
                           .c_row = columns,
                           .limit = bounds::depth_until_column,
                           .offset = block.offset()});  // dQ
  }

  /// Computes P (after dropout) from S and dS from dP, for L queries.
  template <int L>
  [[gnu::always_inline]] void softmax(attention_block const& block, index row, index column,
                                      std::uint64_t first_pair, space& buffers) const {
    using floats = simd::pack<float, L>;
    index const columns = block.columns;
    float* const scores = buffers.scores.data() + column;
    float* const d_scores = buffers.d_scores.data() + column;
    auto const rows = block.rows_of<L>(column);
    floats const first_key_distance = counting<L>(block.offset() + column);
    floats const reach = block.reach<L>(column);
    floats const slope(-block.slope);
    floats const scale(static_cast<float>(options.scale));
    floats const log_total = simd::load<L>(buffers.lse.data() + row + column);
    floats const row_sum = simd::load<L>(buffers.row_dots.data() + row + column);
    bool const has_dropout = options.dropout.is_active();
    dropout_columns<L> drop(options.dropout, first_pair, positioned().positions.sequence_length,
                            block.first_query + column);
    bool const capped = options.softcap > 0.0;
    floats const limit(static_cast<float>(options.softcap));
    floats distance = first_key_distance - counting<L>(rows.begin, 0);
    for (index j = rows.begin; j < rows.end; ++j, distance = distance - floats(1.0F)) {
      floats score = scale * simd::load<L>(scores + j * columns);
      floats derivative = scale;
      if (capped) [[unlikely]] {
        floats const t = simd::tanh(score / limit);
        score = limit * t;
        derivative = scale * (floats(1.0F) - t * t);
      }
      floats probability = simd::exp(simd::fma(slope, distance, score) - log_total);
      if (j < rows.all_begin || j >= rows.all_end)
        probability = mask_unseen<L>(distance, reach, probability, 0.0F);
      floats d_probability = simd::load<L>(d_scores + j * columns);
      if (has_dropout) [[unlikely]] {
        floats const factors = drop.factors(block.first_key + j);
        d_probability *= factors;
        simd::store(scores + j * columns, probability * factors);
      } else {
        simd::store(scores + j * columns, probability);
      }
      simd::store(d_scores + j * columns, probability * derivative * (d_probability - row_sum));
    }
    for (float* const buffer : {scores, d_scores}) {
      clear_rows<L>(buffer, columns, 0, rows.begin);
      clear_rows<L>(buffer, columns, rows.end, block.rows);
    }
  }
};

}  // namespace parallel::host::detail
