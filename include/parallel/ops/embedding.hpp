// Embeddings: rows of a table selected by token, and by position. T is float, bf16, double or
// std::uint64_t.
//
// Gradients are summed into accumulate_t<T> in an order that depends on the ids alone: ascending
// rows of dy, which a GPU sums in pieces. The reader of a batch has checked its ids already. They
// are checked again when the task runs, because one bad id would write to arbitrary memory: on the
// host a bad id is an error; on a GPU, which cannot throw, it gives a row of NaN, and its gradient
// is dropped. Cost: one pass over y or dy; for positions one over y and the table.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// The rows of a vocabulary that a table holds: those from `first` on. Ids of other rows give
/// zeros, and their gradients are dropped. By default the table holds all rows.
struct table_slice {
  index first = 0;
  index vocabulary = 0;  ///< rows of the whole table; 0: those of the table

  /// The row of `id` in a table of `rows` rows, or -1 when another slice holds it.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr index row_of(std::int32_t id, index rows) const {
    index const row = id - first;
    return 0 <= row && row < rows ? row : -1;
  }
};

namespace detail {

/// Throws `error` naming the first id outside of the vocabulary.
inline void check_ids(vector_view<std::int32_t const> ids, index rows, table_slice slice = {}) {
  auto const values = ids.span();
  index const vocabulary = slice.vocabulary == 0 ? rows : slice.vocabulary;
  for (std::size_t i = 0; i < values.size(); ++i)
    require(0 <= values[i] && values[i] < vocabulary, "ops::embedding: id ", values[i],
            " of token ", i, " is outside of the table of ", vocabulary, " rows");
}

template <class Y, class Table>
void check_positions(std::string_view name, Y const& y, Table const& table, index sequence,
                     index first) {
  require_equal(name, "the width of a token", y.extent(1), "that of the table", table.extent(1));
  require(sequence > 0 && y.extent(0) % sequence == 0, "ops::", name, ": ", y.extent(0),
          " rows are not a whole number of sequences of ", sequence, " tokens");
  require(first >= 0 && first + sequence <= table.extent(0), "ops::", name, ": positions ", first,
          " to ", first + sequence - 1, " are needed, but the table ends at ", table.extent(0) - 1);
}

}  // namespace detail

template <class T>
struct embedding_arguments {
  static constexpr char const* name = "embedding";
  matrix_view<T> y;
  vector_view<std::int32_t const> ids;
  matrix_view<T const> table;
  table_slice slice;

  [[nodiscard]] auto operands() const { return std::tuple(y, table); }
  [[nodiscard]] index parts() const { return y.extent(0); }
  void check() const { detail::check_ids(ids, table.extent(0), slice); }
  void compute(index m) const {
    index const row = slice.row_of(ids(m), table.extent(0));
    for (index n = 0; n < y.extent(1); ++n) y(m, n) = row < 0 ? T{} : table(row, n);
  }
};

/// embedding(s, y, ids, table, slice): y[m,:] = table[ids[m],:] for y [M,D], ids [M], table [V,D].
/// With a slice of the table the sum of y over all slices is that.
inline constexpr auto embedding =
    []<class Stream, class T>(Stream& s, matrix_view<T> y, vector_view<std::int32_t const> ids,
                              matrix_view<std::type_identity_t<T> const> table,
                              table_slice slice = {}) {
      detail::require_equal("embedding", "the number of rows of y", y.extent(0), "that of ids",
                            ids.extent(0));
      detail::require_equal("embedding", "the width of y", y.extent(1), "that of the table",
                            table.extent(1));
      run_operation(s, embedding_arguments<T>{y, ids, table, slice});
    };

template <class T>
struct embedding_backward_arguments {
  static constexpr char const* name = "embedding_backward";
  matrix_view<accumulate_t<T>> dtable;
  matrix_view<T const> dy;
  vector_view<std::int32_t const> ids;
  table_slice slice;

  [[nodiscard]] auto operands() const { return std::tuple(updates(dtable), dy); }
  [[nodiscard]] std::uint64_t flops() const { return static_cast<std::uint64_t>(dy.size()); }
  void check() const { detail::check_ids(ids, dtable.extent(0), slice); }
  [[nodiscard]] index parts() const { return dy.extent(1); }
  void compute(index n) const {
    for (index m = 0; m < dy.extent(0); ++m)
      if (index const row = slice.row_of(ids(m), dtable.extent(0)); row >= 0)
        dtable(row, n) += accumulate_t<T>(dy(m, n));
  }
};

/// embedding_backward(s, dtable, dy, ids, slice): dtable[ids[m],:] += dy[m,:].
inline constexpr auto embedding_backward =
    []<class Stream, class T>(Stream& s, matrix_view<accumulate_t<T>> dtable, matrix_view<T> dy,
                              vector_view<std::int32_t const> ids, table_slice slice = {}) {
      auto constexpr name = "embedding_backward";
      detail::require_equal(name, "the number of rows of dy", dy.extent(0), "that of ids",
                            ids.extent(0));
      detail::require_equal(name, "the width of dy", dy.extent(1), "that of dtable",
                            dtable.extent(1));
      run_operation(s, embedding_backward_arguments<std::remove_const_t<T>>{
                           dtable, matrix_view<std::remove_const_t<T> const>(dy), ids, slice});
    };

/// The options of add_positions.
struct position_options {
  index first = 0;  ///< position of the first token of every sequence (context parallelism)
};

template <class T>
struct add_positions_arguments {
  static constexpr char const* name = "add_positions";
  matrix_view<T> y;
  matrix_view<T const> table;
  index sequence;
  position_options options;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y), table); }
  [[nodiscard]] std::uint64_t flops() const { return static_cast<std::uint64_t>(y.size()); }
  [[nodiscard]] index parts() const { return y.extent(0); }
  void compute(index m) const {
    using A = accumulate_t<T>;
    for (index n = 0; n < y.extent(1); ++n)
      y(m, n) = static_cast<T>(A(y(m, n)) + A(table(options.first + m % sequence, n)));
  }
};

/// add_positions(s, y, table, sequence, {.first}): y[r,:] += table[first + r % sequence,:] for y
/// [batch * sequence, D] and table [P,D].
inline constexpr auto add_positions = []<class Stream, class T>(
                                          Stream& s, matrix_view<T> y,
                                          matrix_view<std::type_identity_t<T> const> table,
                                          index sequence, position_options options = {}) {
  detail::check_positions("add_positions", y, table, sequence, options.first);
  run_operation(s, add_positions_arguments<T>{y, table, sequence, options});
};

template <class T>
struct add_positions_backward_arguments {
  static constexpr char const* name = "add_positions_backward";
  matrix_view<accumulate_t<T>> dtable;
  matrix_view<T const> dy;
  index sequence;
  position_options options;

  [[nodiscard]] auto operands() const { return std::tuple(updates(dtable), dy); }
  [[nodiscard]] std::uint64_t flops() const { return static_cast<std::uint64_t>(dy.size()); }
  [[nodiscard]] index parts() const { return dy.extent(1); }
  void compute(index n) const {
    for (index m = 0; m < dy.extent(0); ++m)
      dtable(options.first + m % sequence, n) += accumulate_t<T>(dy(m, n));
  }
};

/// add_positions_backward(s, dtable, dy, sequence, {.first}): dtable[first + r % sequence,:] +=
/// dy[r,:].
inline constexpr auto add_positions_backward = []<class Stream, class T>(
                                                   Stream& s, matrix_view<accumulate_t<T>> dtable,
                                                   matrix_view<T> dy, index sequence,
                                                   position_options options = {}) {
  detail::check_positions("add_positions_backward", dy, dtable, sequence, options.first);
  run_operation(s, add_positions_backward_arguments<std::remove_const_t<T>>{
                       dtable, matrix_view<std::remove_const_t<T> const>(dy), sequence, options});
};

}  // namespace parallel::ops
