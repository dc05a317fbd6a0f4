// Attention's forward pass for one head: FlashAttention's running softmax over blocks of keys.
//
// Scratch a thread: 2 S D floats (keys and values of one head) and about 80 KiB at D = 64.
#pragma once

#include <parallel/ops/host/detail/attention_tiles.hpp>

namespace parallel::host::detail {

template <class T>
struct attention_forward {
  ops::heads_view<T> out;
  tensor_view<float, 3> lse;
  ops::heads_view<T const> q, k, v;
  ops::attention_options options;

  struct space {
    space(index keys, index width)
        : k(padded(keys, 16) * width),
          v(padded(keys, 16) * width),
          rows(attention_queries * width),
          query(attention_queries * width),
          sum(attention_queries * width),
          scores(attention_queries * attention_keys),
          greatest(attention_queries),
          total(attention_queries),
          first_keys(attention_queries) {}
    scratch<float> k, v;             // [keys, width]
    scratch<float> rows;             // [queries, width]
    scratch<float> query;            // [head_dim, queries], scaled
    scratch<float> sum;              // [width, queries]: probabilities times values so far
    scratch<float> scores;           // [keys, queries]: scores, then probabilities
    scratch<float> greatest, total;  // [queries]: running maximum and sum
    scratch<index> first_keys;       // [queries]
  };

  [[nodiscard]] index width() const { return padded(q.head_dim, 16); }
  [[nodiscard]] index first_position() const { return k.sequence - q.sequence; }

  /// Queries [begin, end) of head h of sequence b.
  template <int L>
  [[gnu::always_inline]] void run(index b, index h, index begin, index end, space& own) const {
    index const kv = h / (q.heads / k.heads);
    index const first = first_block(b, begin);
    index const keys = first_position() + end - first;
    copy_rows<L>(own.k.data() + first * width(), width(), k, b, kv, first, keys);
    copy_rows<L>(own.v.data() + first * width(), width(), v, b, kv, first, keys);
    for (index i = begin; i < end; i += attention_queries)
      queries<L>(b, h, i, std::min(attention_queries, end - i), own);
  }

  /// Where the first block of keys begins that query i of sequence b sees.
  [[nodiscard]] index first_block(index b, index i) const {
    index const first = ops::detail::first_key(options, b, i, q.sequence, first_position() + i);
    return first / attention_keys * attention_keys;
  }

  template <int L>
  [[gnu::always_inline]] void queries(index b, index h, index first, index count,
                                      space& own) const {
    attention_block block{.queries = count,
                          .columns = padded(count, 16),
                          .first_query = first_position() + first,
                          .slope = options.alibi_slopes.empty()
                                       ? 0.0F
                                       : options.alibi_slopes[static_cast<std::size_t>(h)],
                          .first_keys = own.first_keys.data()};
    index const columns = block.columns;
    fill_first_keys(own.first_keys.data(), options, b, q.sequence, k.sequence, first, columns);
    copy_rows<L>(own.rows.data(), width(), q, b, h, first, count);
    transpose_rows(own.query.data(), columns, own.rows.data(), width(), q.head_dim,
                   static_cast<float>(options.scale));
    std::fill_n(own.sum.data(), width() * columns, 0.0F);
    std::fill_n(own.greatest.data(), columns, -std::numeric_limits<float>::infinity());
    std::fill_n(own.total.data(), columns, 0.0F);
    auto const pair = ops::detail::first_pair(options.dropout, b, h, q.heads, k.sequence);
    index const end = block.first_query + count;
    for (block.first_key = first_block(b, first); block.first_key < end;
         block.first_key += attention_keys) {
      block.keys = std::min(attention_keys, end - block.first_key);
      tile_product<L, tile_store::assign>({.rows = block.rows(),
                                           .columns = columns,
                                           .depth = q.head_dim,
                                           .a = own.k.data() + block.first_key * width(),
                                           .a_row = width(),
                                           .a_depth = 1,
                                           .b = own.query.data(),
                                           .b_depth = columns,
                                           .c = own.scores.data(),
                                           .c_row = columns,
                                           .limit = bounds::columns_from_row,
                                           .offset = block.offset()});
      for (index column = 0; column < columns; column += L) softmax<L>(block, column, pair, own);
      tile_product<L, tile_store::add>({.rows = width(),
                                        .columns = columns,
                                        .depth = block.keys,
                                        .a = own.v.data() + block.first_key * width(),
                                        .a_row = 1,
                                        .a_depth = width(),
                                        .b = own.scores.data(),
                                        .b_depth = columns,
                                        .c = own.sum.data(),
                                        .c_row = columns,
                                        .limit = bounds::depth_until_column,
                                        .offset = block.offset()});
    }
    finish(b, h, first, block, own);
  }

  /// Scores of L queries become probabilities relative to the new maximum; what was summed before
  /// is corrected for it.
  template <int L>
  [[gnu::always_inline]] void softmax(attention_block const& block, index column,
                                      std::uint64_t pair, space& own) const {
    using floats = simd::pack<float, L>;
    index const columns = block.columns;
    float* const scores = own.scores.data() + column;
    auto const rows = block.rows_of<L>(column);
    floats const distance = counting<L>(block.offset() + column);  // of each query from key 0
    floats const slope(-block.slope);
    floats const before = simd::load<L>(own.greatest.data() + column);
    floats greatest = before;
    if (options.softcap > 0.0) [[unlikely]]
      cap<L>(scores, columns, rows.begin, rows.end);
    for (index j = rows.all_begin; j < rows.all_end; ++j) {
      floats score = simd::load<L>(scores + j * columns);
      score = simd::fma(slope, distance - floats(static_cast<float>(j)), score);
      simd::store(scores + j * columns, score);
      greatest = simd::max(greatest, score);
    }
    floats const reach = block.reach<L>(column);
    auto const masked = [&](index begin, index end) __attribute__((always_inline)) {
      for (index j = begin; j < end; ++j) {
        floats const apart = distance - floats(static_cast<float>(j));
        floats const score = where_seen<L>(
            apart, reach, simd::fma(slope, apart, simd::load<L>(scores + j * columns)),
            -std::numeric_limits<float>::infinity());
        simd::store(scores + j * columns, score);
        greatest = simd::max(greatest, score);
      }
    };
    masked(rows.begin, rows.all_begin);
    masked(rows.all_end, rows.end);
    // a query that has seen no key yet: its weights are e^(-inf - 0), not e^(-inf + inf)
    floats const shift = simd::select(greatest < floats(std::numeric_limits<float>::lowest()),
                                      floats(0.0F), greatest);
    floats total(0.0F);
    bool const dropped = options.dropout.active();
    for (index j = rows.begin; j < rows.end; ++j) {
      floats weight = simd::exp(simd::load<L>(scores + j * columns) - shift);
      total += weight;
      if (dropped) [[unlikely]]
        weight *= dropout_factors<L>(options.dropout, pair, k.sequence, block.first_query + column,
                                     block.first_key + j);
      simd::store(scores + j * columns, weight);
    }
    clear_rows<L>(scores, columns, 0, rows.begin);
    clear_rows<L>(scores, columns, rows.end, block.rows());
    floats const correction = simd::exp(before - shift);
    simd::store(own.greatest.data() + column, greatest);
    simd::store(own.total.data() + column,
                simd::fma(correction, simd::load<L>(own.total.data() + column), total));
    for (index i = 0; i < q.head_dim; ++i) {
      float* const sum = own.sum.data() + i * columns + column;
      simd::store(sum, correction * simd::load<L>(sum));
    }
  }

  template <int L>
  [[gnu::always_inline]] void cap(float* scores, index columns, index begin, index end) const {
    simd::pack<float, L> const limit(static_cast<float>(options.softcap));
    for (index j = begin; j < end; ++j)
      simd::store(scores + j * columns,
                  limit * simd::tanh(simd::load<L>(scores + j * columns) / limit));
  }

  [[gnu::always_inline]] void finish(index b, index h, index first, attention_block const& block,
                                     space& own) const {
    for (index r = 0; r < block.queries; ++r) {
      T* const to = out.row(b, first + r, h);
      float const total = own.total.data()[r];
      for (index i = 0; i < q.head_dim; ++i)
        to[i] = static_cast<T>(own.sum.data()[i * block.columns + r] / total);
      if (!lse.empty()) lse(b, h, first + r) = own.greatest.data()[r] + std::log(total);
    }
  }
};

}  // namespace parallel::host::detail
