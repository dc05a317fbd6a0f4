// Attention's forward pass for one head: FlashAttention's running softmax over blocks of keys.
//
// Scratch per thread: 2 S D floats (keys and values of one head) and about 80 KiB at D = 64.
#pragma once

#include <parallel/ops/host/detail/attention_tiles.hpp>

namespace parallel::host::detail {

/// E: the operand type of the products, float or (T is bf16) bf16_pair; O: the type of the results.
template <class T, class E = float, class O = T>
struct attention_forward {
  // positions along the depth of a product that one E holds: 1, or 2 for a pair
  static constexpr index depths_per_element = depth_of<E>;

  ops::heads_view<O> out;
  tensor_view<float, 3> lse;
  ops::heads_view<T const> q, k, v;
  ops::attention_options options;
  bool extends = false;  // out and lse already hold the result over other keys, which is extended
  multiplier method = fastest_multiplier<E>();

  /// The scratch memory of one thread.
  struct space {
    space(arena& memory, index keys, index width)
        : k(memory, keys, width, {.by_row = true}),
          v(memory, keys, width, {.by_column = true}),
          q(memory, attention_queries, width, {.by_row = true}),
          weights(memory, std::is_same_v<E, float> ? 0 : attention_keys, attention_queries,
                  {.by_depth = true}),
          query(memory, attention_queries * width / depths_per_element),
          sum(memory, attention_queries * width),
          result(memory, attention_queries * width),
          scores(memory, attention_queries * attention_keys),
          greatest(memory, attention_queries),
          total(memory, attention_queries),
          correction(memory, attention_queries),
          first_keys(memory, attention_queries) {}
    operand_matrix<E> k, v;          // [keys, width]
    operand_matrix<E> q;             // [queries, width]
    operand_matrix<E> weights;       // [keys, queries]: the probabilities
    scratch<E> query;                // [width, queries]
    scratch<float> sum;              // [width, queries]: values times probabilities so far
    scratch<float> result;           // [queries, width]: `sum` transposed
    scratch<float> scores;           // [keys, queries]: scores, then probabilities
    scratch<float> greatest, total;  // [queries]: running maximum and sum
    scratch<float> correction;       // [queries]: the factor for sums before the last block
    scratch<index> first_keys;       // [queries]: the first key that each query sees
  };

  [[nodiscard]] index width() const { return padded(q.head_dim, depth_step<E>); }
  [[nodiscard]] ops::detail::positioned_attention positioned() const {
    return {options, q.sequence, k.sequence};
  }

  /// Computes the result of queries [begin, end) of head h of sequence b.
  template <int L>
  [[gnu::always_inline]] void run(index b, index h, index begin, index end, space& buffers) const {
    tile_shapes const shapes(method);
    index const kv = h / (q.heads / k.heads);
    index const first = first_block(b, begin);
    index const keys = std::max<index>(positioned().end_key(end) - first, 0);
    buffers.k.template fill<L>(first, k, b, kv, first, keys);
    buffers.v.template fill<L>(first, v, b, kv, first, keys);
    for (index i = begin; i < end; i += attention_queries)
      queries<L>(b, h, i, std::min(attention_queries, end - i), buffers);
  }

  /// The beginning of the first block of keys that query i of sequence b sees.
  [[nodiscard]] index first_block(index b, index i) const {
    return positioned().first_key(b, i) / attention_keys * attention_keys;
  }

  /// Computes the result of queries [first, first + count), one block, of head h of sequence b.
  template <int L>
  [[gnu::always_inline]] void queries(index b, index h, index first, index count,
                                      space& buffers) const {
    auto const positioned = this->positioned();
    attention_block block{.queries = count,
                          .columns = padded(count, 16),
                          .first_query = positioned.query_position(first),
                          .slope = options.alibi_slopes.empty()
                                       ? 0.0F
                                       : options.alibi_slopes[static_cast<std::size_t>(h)],
                          .first_keys = buffers.first_keys.data()};
    index const columns = block.columns;
    fill_first_keys(buffers.first_keys.data(), positioned, b, first, columns);
    buffers.q.template fill<L>(0, q, b, h, first, count);
    auto const rows = buffers.q.by_row(0);
    transpose<L>(buffers.query.data(), columns, rows.data, rows.row, columns,
                 width() / depths_per_element);
    std::fill_n(buffers.sum.data(), width() * columns, 0.0F);
    std::fill_n(buffers.greatest.data(), columns, -std::numeric_limits<float>::infinity());
    std::fill_n(buffers.total.data(), columns, 0.0F);
    if (extends) resume<L>(b, h, first, block, buffers);
    auto const first_pair = positioned.first_pair(b, h, q.heads);
    index const end = positioned.end_key(first + count);
    for (block.first_key = first_block(b, first); block.first_key < end;
         block.first_key += attention_keys) {
      block.keys = std::min(attention_keys, end - block.first_key);
      block.rows = padded(block.keys, depth_step<E>);
      auto const keys = buffers.k.by_row(block.first_key);
      tile_product<L, tile_store::assign>(
          method, tile_of<E>{.rows = block.rows,
                             .columns = columns,
                             .depth = (q.head_dim + depths_per_element - 1) / depths_per_element,
                             .a = keys.data,
                             .a_row = keys.row,
                             .a_depth = keys.depth,
                             .b = buffers.query.data(),
                             .b_depth = columns,
                             .c = buffers.scores.data(),
                             .c_row = columns,
                             .limit = bounds::columns_from_row,
                             .offset = block.offset()});
      for (index column = 0; column < columns; column += L) {
        softmax<L>(block, column, first_pair, buffers);
        correct<L>(column, columns, buffers);
      }
      buffers.weights.template narrow<L>(buffers.scores.data(), block.rows, columns);
      auto const values = buffers.v.by_column(block.first_key);
      tile_product<L, tile_store::add>(
          method, tile_of<E>{.rows = padded(q.head_dim, 16),
                             .columns = columns,
                             .depth = (block.keys + depths_per_element - 1) / depths_per_element,
                             .a = values.data,
                             .a_row = values.row,
                             .a_depth = values.depth,
                             .b = buffers.weights.by_depth(0),
                             .b_depth = columns,
                             .c = buffers.sum.data(),
                             .c_row = columns,
                             .limit = bounds::depth_until_column,
                             .offset = block.offset()});
    }
    finish<L>(b, h, first, block, buffers);
  }

  /// Changes the scores of L queries to probabilities relative to the new maximum, and computes the
  /// correction of earlier sums for it.
  template <int L>
  [[gnu::always_inline]] void softmax(attention_block const& block, index column,
                                      std::uint64_t first_pair, space& buffers) const {
    using floats = simd::pack<float, L>;
    index const columns = block.columns;
    float* const scores = buffers.scores.data() + column;
    auto const rows = block.rows_of<L>(column);
    // from the block's first key to each query
    floats const first_key_distance = counting<L>(block.offset() + column);
    // The loops subtract 1 per key: g++ 12 would convert j to a vector lane by lane.
    floats const one(1.0F);
    floats const slope(-block.slope);
    floats const previous_greatest = simd::load<L>(buffers.greatest.data() + column);
    floats greatest = previous_greatest;
    bool const capped = options.softcap > 0.0;
    if (capped) [[unlikely]]
      cap<L>(scores, columns, rows.begin, rows.end);
    floats const scale(capped ? 1.0F : static_cast<float>(options.scale));
    floats distance = first_key_distance - counting<L>(rows.all_begin, 0);
    for (index j = rows.all_begin; j < rows.all_end; ++j, distance = distance - one) {
      floats const score = simd::fma(slope, distance, scale * simd::load<L>(scores + j * columns));
      simd::store(scores + j * columns, score);
      greatest = simd::max(greatest, score);
    }
    floats const reach = block.reach<L>(column);
    auto const masked = [&](index begin, index end) __attribute__((always_inline)) {
      distance = first_key_distance - counting<L>(begin, 0);
      for (index j = begin; j < end; ++j, distance = distance - one) {
        floats const score =
            mask_unseen<L>(distance, reach,
                           simd::fma(slope, distance, scale * simd::load<L>(scores + j * columns)),
                           -std::numeric_limits<float>::infinity());
        simd::store(scores + j * columns, score);
        greatest = simd::max(greatest, score);
      }
    };
    masked(rows.begin, rows.all_begin);
    masked(rows.all_end, rows.end);
    // A query that has seen no key has maximum -inf; a shift of 0 gives its weights e^-inf = 0, not
    // NaN.
    floats const shift = simd::select(greatest < floats(std::numeric_limits<float>::lowest()),
                                      floats(0.0F), greatest);
    floats total(0.0F);
    bool const has_dropout = options.dropout.is_active();
    dropout_columns<L> drop(options.dropout, first_pair, positioned().positions.sequence_length,
                            block.first_query + column);
    for (index j = rows.begin; j < rows.end; ++j) {
      floats weight = simd::exp(simd::load<L>(scores + j * columns) - shift);
      total += weight;
      if (has_dropout) [[unlikely]]
        weight *= drop.factors(block.first_key + j);
      simd::store(scores + j * columns, weight);
    }
    clear_rows<L>(scores, columns, 0, rows.begin);
    clear_rows<L>(scores, columns, rows.end, block.rows);
    floats const correction = simd::exp(previous_greatest - shift);
    simd::store(buffers.greatest.data() + column, greatest);
    simd::store(buffers.total.data() + column,
                simd::fma(correction, simd::load<L>(buffers.total.data() + column), total));
    simd::store(buffers.correction.data() + column, correction);
  }

  /// Caps scores smoothly: softcap * tanh(scale * score / softcap).
  template <int L>
  [[gnu::always_inline]] void cap(float* scores, index columns, index begin, index end) const {
    simd::pack<float, L> const limit(static_cast<float>(options.softcap));
    simd::pack<float, L> const inner(static_cast<float>(options.scale / options.softcap));
    for (index j = begin; j < end; ++j)
      simd::store(scores + j * columns,
                  limit * simd::tanh(inner * simd::load<L>(scores + j * columns)));
  }

  /// Corrects the earlier sums of L queries for their new maximum.
  template <int L>
  [[gnu::always_inline]] void correct(index column, index columns, space& buffers) const {
    float const* const corrections = buffers.correction.data() + column;
    if (std::all_of(corrections, corrections + L, [](float x) { return x == 1.0F; })) return;
    auto const correction = simd::load<L>(corrections);
    for (index i = 0; i < q.head_dim; ++i) {
      float* const sum = buffers.sum.data() + i * columns + column;
      simd::store(sum, correction * simd::load<L>(sum));
    }
  }

  /// Starts the running softmax from the contents of out and lse. A finished result is a sum of
  /// values whose total of probabilities is 1 and whose maximum is lse.
  template <int L>
  [[gnu::always_inline]] void resume(index b, index h, index first, attention_block const& block,
                                     space& buffers) const {
    std::fill_n(buffers.result.data(), block.columns * width(), 0.0F);
    for (index r = 0; r < block.queries; ++r) {
      float const previous_lse = lse(b, h, first + r);
      buffers.greatest.data()[r] = previous_lse;
      if (previous_lse == -std::numeric_limits<float>::infinity()) continue;
      buffers.total.data()[r] = 1.0F;
      O const* const from = out.row(b, first + r, h);
      for (index i = 0; i < q.head_dim; i += L)
        simd::store(buffers.result.data() + r * width() + i,
                    simd::load_partial<L>(from + i, q.head_dim - i));
    }
    transpose<L>(buffers.sum.data(), block.columns, buffers.result.data(), width(), block.columns,
                 padded(q.head_dim, 16));
  }

  /// Divides the sums by the totals of probabilities and writes out and lse.
  template <int L>
  [[gnu::always_inline]] void finish(index b, index h, index first, attention_block const& block,
                                     space& buffers) const {
    transpose<L>(buffers.result.data(), width(), buffers.sum.data(), block.columns,
                 padded(q.head_dim, 16), block.columns);
    for (index r = 0; r < block.queries; ++r) {
      float const total = buffers.total.data()[r];
      float* const row = buffers.result.data() + r * width();
      auto const factor = simd::pack<float, L>(total > 0.0F ? 1.0F / total : 0.0F);
      for (index i = 0; i < q.head_dim; i += L)
        simd::store(row + i, factor * simd::load<L>(row + i));
      write_row<L>(out.row(b, first + r, h), row, q.head_dim);
      if (!lse.empty()) lse(b, h, first + r) = buffers.greatest.data()[r] + std::log(total);
    }
  }
};

}  // namespace parallel::host::detail
