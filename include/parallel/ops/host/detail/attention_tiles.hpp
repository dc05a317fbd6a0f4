// What the forward and backward passes of host attention share: sizes of blocks, copies of one
// head's rows to floats, and the score of a pair.
//
// Tiles are kept with keys as rows and queries as columns: the lanes of a register are different
// queries, so maxima, sums and corrections of the softmax are ordinary arithmetic without sums
// across a register. Queries of a block and head_dim are padded to multiples of 16.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/detail/tile.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

inline constexpr index attention_queries = 64;  // of a block: columns of a tile
inline constexpr index attention_keys = 64;     // of a block: rows of a tile

[[nodiscard]] constexpr index padded(index count, index multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// to[r * width + i] = row `r` of one head from `first` on, for r < count; zero for i >= head_dim
/// and up to the next multiple of 16 rows.
template <int L, class T>
[[gnu::always_inline]] inline void copy_rows(float* to, index width,
                                             ops::heads_view<T const> const& from, index b, index h,
                                             index first, index count) {
  for (index r = 0; r < padded(count, 16); ++r) {
    T const* const row = r < count ? from.row(b, first + r, h) : nullptr;
    for (index i = 0; i < width; i += L)
      simd::store(to + r * width + i, row == nullptr
                                          ? simd::pack<float, L>(0.0F)
                                          : simd::load_partial<L>(row + i, from.head_dim - i));
  }
}

/// to[i * columns + r] = factor * rows[r * width + i] for i < head_dim: queries become lanes.
[[gnu::always_inline]] inline void transpose_rows(float* to, index columns, float const* rows,
                                                  index width, index head_dim, float factor) {
  for (index r = 0; r < columns; ++r)
    for (index i = 0; i < head_dim; ++i) to[i * columns + r] = factor * rows[r * width + i];
}

/// The pairs of one block of queries with one block of keys.
struct attention_block {
  index queries = 0;  // real ones; `columns` is padded to a multiple of 16
  index columns = 0;
  index keys = 0;         // real ones that some query of the block sees
  index first_key = 0;    // position of row 0
  index first_query = 0;  // position of column 0
  float slope = 0.0F;

  index const* first_keys = nullptr;  // [columns]: first(i) of each column, never decreasing

  [[nodiscard]] index offset() const { return first_query - first_key; }
  /// Rows of the tiles: `keys`, padded to what a product computes at once.
  [[nodiscard]] index rows() const { return padded(keys, tile_rows); }
  /// Of the register of L columns from `column` on: [begin, end) are the rows that some lane sees,
  /// [all_begin, all_end) those that every lane sees, and in between lanes must be masked.
  struct row_range {
    index begin, all_begin, all_end, end;
  };
  template <int L>
  [[nodiscard, gnu::always_inline]] row_range rows_of(index column) const {
    index const end = std::clamp<index>(column + L + offset(), 0, keys);
    index const begin = std::clamp<index>(first_keys[column] - first_key, 0, end);
    index const all_begin = std::clamp<index>(first_keys[column + L - 1] - first_key, begin, end);
    return {begin, all_begin, std::clamp<index>(column + offset() + 1, all_begin, end), end};
  }
  /// How many keys before its own position each of the L queries sees.
  template <int L>
  [[nodiscard, gnu::always_inline]] simd::pack<float, L> reach(index column) const {
    float lanes[L];
    for (int lane = 0; lane < L; ++lane)
      lanes[lane] = static_cast<float>(first_query + column + lane - first_keys[column + lane]);
    return simd::load<L>(lanes);
  }
};

/// to[c] = first(i) of query i = first + c of sequence b; columns that are no query repeat the
/// last.
inline void fill_first_keys(index* to, ops::attention_options const& options, index b,
                            index queries, index keys, index first, index columns) {
  for (index c = 0; c < columns; ++c) {
    index const i = std::min(first + c, queries - 1);
    to[c] = ops::detail::first_key(options, b, i, queries, keys - queries + i);
  }
}

/// `kept` where query and key see each other, else `otherwise`; apart = query's - key's position.
template <int L>
[[gnu::always_inline]] inline simd::pack<float, L> where_seen(simd::pack<float, L> const& apart,
                                                              simd::pack<float, L> const& reach,
                                                              simd::pack<float, L> const& kept,
                                                              float otherwise) {
  using floats = simd::pack<float, L>;
  floats const past = simd::select(apart < floats(0.0F), floats(otherwise), kept);
  return simd::select(reach < apart, floats(otherwise), past);
}

/// column + 0, 1, ... L-1 + first as floats.
template <int L>
[[gnu::always_inline]] inline simd::pack<float, L> counting(index first) {
  float lanes[L];
  for (int lane = 0; lane < L; ++lane) lanes[lane] = static_cast<float>(first + lane);
  return simd::load<L>(lanes);
}

/// What dropout multiplies the probabilities of key `j` and L queries from `query` on by.
template <int L>
[[gnu::always_inline]] inline simd::pack<float, L> dropout_factors(
    ops::attention_dropout const& dropout, std::uint64_t first_pair, index keys, index query,
    index j) {
  float factors[L];
  float const kept = 1.0F / (1.0F - dropout.probability);
  for (int lane = 0; lane < L; ++lane) {
    auto const pair = first_pair + static_cast<std::uint64_t>((query + lane) * keys + j);
    factors[lane] = dropout.random.uniform(pair) >= dropout.probability ? kept : 0.0F;
  }
  return simd::load<L>(factors);
}

/// Columns (lanes) of a tile from `at` on, rows [begin, end): set to zero.
template <int L>
[[gnu::always_inline]] inline void clear_rows(float* at, index columns, index begin, index end) {
  for (index j = begin; j < end; ++j) simd::store(at + j * columns, simd::pack<float, L>(0.0F));
}

}  // namespace parallel::host::detail
