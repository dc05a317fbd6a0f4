// Shared parts of the forward and backward passes of host attention: sizes of blocks, the pairs of
// a block that see each other, and the effect of dropout on them.
//
// Tiles have keys as rows and queries as columns, so that the lanes of a register are different
// queries: maxima, sums and corrections of the softmax need no sums across a register. Results and
// gradients of queries are laid out likewise while they are summed. The queries of a block and
// head_dim are padded to multiples of 16, depths of products to depth_step.
#pragma once

#include <algorithm>
#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/host/detail/attention_operands.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/philox.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// The pairs of one block of queries with one block of keys.
struct attention_block {
  index queries = 0;  // without padding; `columns` is padded to a multiple of 16
  index columns = 0;
  index keys = 0;         // keys that some query of the block sees, without padding
  index rows = 0;         // rows of the tiles: `keys`, padded
  index first_key = 0;    // position of row 0
  index first_query = 0;  // position of column 0
  float slope = 0.0F;

  index const* first_keys = nullptr;  // [columns]: first(i) of each column, never decreasing

  [[nodiscard]] index offset() const { return first_query - first_key; }
  /// The rows that matter for the register of L columns from `column` on: some lane sees the rows
  /// [begin, end), every lane sees the rows [all_begin, all_end), and the rows between these bounds
  /// must be masked.
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
  /// The number of keys before its own position that each of the L queries sees.
  template <int L>
  [[nodiscard, gnu::always_inline]] simd::pack<float, L> reach(index column) const {
    float lanes[L];
    for (int lane = 0; lane < L; ++lane)
      lanes[lane] = static_cast<float>(first_query + column + lane - first_keys[column + lane]);
    return simd::load<L>(lanes);
  }
};

/// Sets to[c] = first(i) of query i = first + c of sequence b; padding columns repeat the last
/// query.
inline void fill_first_keys(index* to, ops::detail::positioned_attention const& positioned, index b,
                            index first, index columns) {
  for (index c = 0; c < columns; ++c)
    to[c] = positioned.first_key(b, std::min(first + c, positioned.queries - 1));
}

/// `seen` in lanes whose query and key see each other, else `otherwise`. distance = the position
/// of the query - that of the key.
template <int L>
[[gnu::always_inline]] inline simd::pack<float, L> mask_unseen(simd::pack<float, L> const& distance,
                                                               simd::pack<float, L> const& reach,
                                                               simd::pack<float, L> const& seen,
                                                               float otherwise) {
  using floats = simd::pack<float, L>;
  floats const past = simd::select(distance < floats(0.0F), floats(otherwise), seen);
  return simd::select(reach < distance, floats(otherwise), past);
}

/// The floats first, first + step, first + 2 step, ...
template <int L>
[[gnu::always_inline]] inline simd::pack<float, L> counting(index first, index step = 1) {
  float lanes[L];
  for (int lane = 0; lane < L; ++lane) lanes[lane] = static_cast<float>(first + lane * step);
  return simd::load<L>(lanes);
}

/// The factors by which dropout multiplies the probabilities of L queries with one key. Four
/// neighbouring keys of a query share a Philox block if the index of the first pair and the
/// sequence length are multiples of four.
template <int L>
class dropout_columns {
 public:
  /// Queries from `query` on; `first_pair` is the index of pair (0, 0), `sequence_length` the
  /// distance from one query's pairs to the next query's.
  [[gnu::always_inline]] dropout_columns(ops::attention_dropout const& dropout,
                                         std::uint64_t first_pair, index sequence_length,
                                         index query)
      : dropout_(dropout),
        first_(first_pair),
        sequence_length_(sequence_length),
        query_(query),
        aligned_(sequence_length % 4 == 0 && first_pair % 4 == 0) {}

  /// The factors for key `j`; cheapest when called for consecutive keys.
  [[nodiscard, gnu::always_inline]] simd::pack<float, L> factors(index j) {
    if (!aligned_) {
      blocks_of(j);
      for (int lane = 0; lane < L; ++lane) words_[0][lane] = words_[pair(lane, j) % 4][lane];
    } else if (j / 4 != group_) {
      blocks_of(j);
      group_ = j / 4;
    }
    using floats = simd::pack<float, L>;
    float const p = dropout_.probability;
    auto const uniform = uniform_of<L>(words_[aligned_ ? j % 4 : 0]);
    return simd::select(uniform < broadcast<L>(p), floats(0.0F), broadcast<L>(1.0F / (1.0F - p)));
  }

 private:
  [[nodiscard]] std::uint64_t pair(int lane, index j) const {
    return first_ + static_cast<std::uint64_t>((query_ + lane) * sequence_length_ + j);
  }

  [[gnu::always_inline]] void blocks_of(index j) {
    std::uint32_t counters[2][L];
    for (int lane = 0; lane < L; ++lane) {
      counters[0][lane] = static_cast<std::uint32_t>(pair(lane, j) >> 2);
      counters[1][lane] = static_cast<std::uint32_t>(pair(lane, j) >> 34);
    }
    simd::pack<std::uint32_t, L> low;
    simd::pack<std::uint32_t, L> high;
    __builtin_memcpy(&low.v, counters[0], sizeof low.v);
    __builtin_memcpy(&high.v, counters[1], sizeof high.v);
    philox_lanes<L> const x(low, high, dropout_.random);
    __builtin_memcpy(words_[0], &x.c0.v, sizeof x.c0.v);
    __builtin_memcpy(words_[1], &x.c1.v, sizeof x.c1.v);
    __builtin_memcpy(words_[2], &x.c2.v, sizeof x.c2.v);
    __builtin_memcpy(words_[3], &x.c3.v, sizeof x.c3.v);
  }

  ops::attention_dropout const& dropout_;
  std::uint64_t first_;
  index sequence_length_;
  index query_;
  bool aligned_;
  index group_ = -1;  // the group of four keys whose random words are in words_
  std::uint32_t words_[4][L];
};

/// Writes the first `head_dim` elements of a padded row, or adds them if `accumulate` is set.
template <int L, class T>
[[gnu::always_inline]] inline void write_row(T* to, float const* from, index head_dim,
                                             bool accumulate = false) {
  for (index i = 0; i < head_dim; i += L) {
    auto values = simd::load<L>(from + i);
    if (accumulate) [[unlikely]]
      values += simd::load_partial<L>(to + i, head_dim - i);
    simd::store_partial(to + i, values, head_dim - i);
  }
}

/// Sets the rows [begin, end) of L columns (lanes) of a tile to zero; `first_column` points to the
/// first of these columns.
template <int L>
[[gnu::always_inline]] inline void clear_rows(float* first_column, index columns, index begin,
                                              index end) {
  for (index j = begin; j < end; ++j)
    simd::store(first_column + j * columns, simd::pack<float, L>(0.0F));
}

}  // namespace parallel::host::detail
