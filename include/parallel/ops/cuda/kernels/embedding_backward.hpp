// The gradient of an embedding as kernels, without atomics: the rows of dy that share a token are
// summed in the order of rows, in pieces that depend on the ids alone.
//
// 1. list_rows     computes the row of the table for each token;
// 2. a stable sort (by the launcher) brings the tokens of one row together: a run;
// 3. sum_pieces    divides the sorted tokens into pieces of equal length, so that a frequent token
//                  does not keep one warp busy, and sums its runs; the sum of a run that lies in
//                  one piece is added to the table, that of a run that continues in other pieces
//                  is left `open`;
// 4. join_pieces   adds the open sums of a run, in order, and adds the total to the table.
//
// Cost: one pass over dy, one over the rows of the table that occur, and 2 rows of open sums per
// piece.
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel::cuda::kernels {

/// rows[m] = the table's row of token m, or the number of rows if it has none; tokens[m] = m.
struct list_rows {
  std::uint32_t* rows;
  std::uint32_t* tokens;
  std::int32_t const* ids;
  index count;
  index table_rows;
  ops::table_slice slice;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_in_grid(b, static_cast<std::size_t>(count), [this](std::size_t m) {
      index const row = slice.row_of(ids[m], table_rows);
      rows[m] = static_cast<std::uint32_t>(row < 0 ? table_rows : row);
      tokens[m] = static_cast<std::uint32_t>(m);
    });
  }
};

/// The arguments of the two kernels after the sort.
template <class T>
struct sorted_tokens {
  static constexpr index piece = 32;

  accumulate_t<T>* dtable;
  T const* dy;
  std::uint32_t const* rows;    // [count], ascending
  std::uint32_t const* tokens;  // [count], ascending within a row
  accumulate_t<T>* open;  // [pieces(count), 2, columns]: the run that continues from the previous
                          // piece, and the run that begins here and continues in the next
  index count;
  index columns;
  index table_rows;

  [[nodiscard]] PARALLELLM_HOST_DEVICE static constexpr index pieces(index count) {
    return (count + piece - 1) / piece;
  }
  /// Whether the sorted tokens sorted_index - 1 and sorted_index belong to one row.
  [[nodiscard]] PARALLELLM_DEVICE bool joined(index sorted_index) const {
    return 0 < sorted_index && sorted_index < count && rows[sorted_index - 1] == rows[sorted_index];
  }
  [[nodiscard]] PARALLELLM_DEVICE accumulate_t<T>* open_sum(index p, index slot) const {
    return open + (2 * p + slot) * columns;
  }
  template <unsigned n>
  PARALLELLM_DEVICE void add_to_table(index row, index c,
                                      group<accumulate_t<T>, n> const& sum) const {
    accumulate_t<T>* const to = dtable + row * columns + c;
    auto total = load_group<n>(to);
    add_to(total, sum);
    store_group(to, total);
  }
  template <unsigned N>
  [[nodiscard]] PARALLELLM_DEVICE bool aligned() const {
    return groupable_rows<N>(dtable, columns, columns) && groupable<N>(dy) && groupable<N>(open);
  }
};

template <class T>
struct sum_pieces {
  sorted_tokens<T> sorted;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = group_size<T, accumulate_t<T>>;
    for_each_in_rows<N, 1>(b, sorted.pieces(sorted.count), sorted.columns,
                           sorted.template aligned<N>(),
                           [this]<unsigned n>(index p, index c) { sum_runs<n>(p, c); });
  }

 private:
  template <unsigned n>
  PARALLELLM_DEVICE void sum_runs(index p, index c) const {
    index const begin = p * sorted.piece;
    index const end = begin + sorted.piece < sorted.count ? begin + sorted.piece : sorted.count;
    bool from_before = sorted.joined(begin);
    group<accumulate_t<T>, n> sum{};
    for (index i = begin; i < end; ++i) {
      auto const row = static_cast<index>(sorted.rows[i]);
      if (row == sorted.table_rows) return;  // all later tokens have no row either
      add_to(sum, load_group<n>(sorted.dy + index{sorted.tokens[i]} * sorted.columns + c));
      bool const goes_on = sorted.joined(i + 1);
      if (goes_on && i + 1 < end) continue;
      if (from_before)
        store_group(sorted.open_sum(p, 0) + c, sum);
      else if (goes_on)
        store_group(sorted.open_sum(p, 1) + c, sum);
      else
        sorted.add_to_table(row, c, sum);
      from_before = false;
      sum = {};
    }
  }
};

template <class T>
struct join_pieces {
  sorted_tokens<T> sorted;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = group_size<T, accumulate_t<T>>;
    for_each_in_rows<N, 1>(b, sorted.pieces(sorted.count), sorted.columns,
                           sorted.template aligned<N>(),
                           [this]<unsigned n>(index p, index c) { join<n>(p, c); });
  }

 private:
  /// Adds the run that begins in piece p and continues in others, if there is one.
  template <unsigned n>
  PARALLELLM_DEVICE void join(index p, index c) const {
    index const begin = p * sorted.piece;
    index const end = begin + sorted.piece;
    if (!sorted.joined(end)) return;
    auto const row = sorted.rows[end];
    if (static_cast<index>(row) == sorted.table_rows) return;
    if (begin > 0 && sorted.rows[begin - 1] == row) return;  // it began earlier
    auto sum = load_group<n>(sorted.open_sum(p, 1) + c);
    for (index q = p + 1; q * sorted.piece < sorted.count && sorted.rows[q * sorted.piece] == row;
         ++q)
      add_to(sum, load_group<n>(sorted.open_sum(q, 0) + c));
    sorted.add_to_table(static_cast<index>(row), c, sum);
  }
};

}  // namespace parallel::cuda::kernels
