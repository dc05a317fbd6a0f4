// The slices of a layer's parameters that a tensor rank holds. They are about equal: the degree
// need not divide the number of heads, hidden units or words.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/attention/head_layout.hpp>

namespace parallel::tensor {

/// The position of a rank on the tensor axis.
struct axis_position {
  index rank = 0;
  index size = 1;

  /// This rank's part of `count` items. Parts differ by one at most, and lower ranks have the
  /// larger ones; long parts of a `count` that is not divisible begin at multiples of 8, as matrix
  /// units need, and differ by 15 at most. Throws when `count` is less than the number of ranks.
  /// `counted` names the items in the message.
  ///
  ///     axis_position{0, 3}.part_of(11, "heads")     →  begin 0, count 4
  ///     axis_position{2, 3}.part_of(11, "heads")     →  begin 8, count 3
  ///     axis_position{0, 3}.part_of(50257, "words")  →  begin 0, count 16760
  ///     axis_position{2, 3}.part_of(50257, "words")  →  begin 33512, count 16745
  [[nodiscard]] row_range part_of(index count, std::string_view counted) const {
    require(count >= size, "tensor parallelism: ", counted, " ", count, " is not enough for ", size,
            " ranks; choose a degree of tensor of at most ", std::max<index>(count, 1));
    index const unit = count % size != 0 && count / size >= 512 ? 8 : 1;
    index const units = (count + unit - 1) / unit;  // the last may be shorter
    auto const begin_of = [&](index r) {
      return std::min(count, (r * (units / size) + std::min(r, units % size)) * unit);
    };
    return {begin_of(rank), begin_of(rank + 1) - begin_of(rank)};
  }

  /// The key or value heads that this rank's query heads use: its part, or, with fewer heads than
  /// ranks, one head that neighbours hold too. The number of ranks must then be a multiple of
  /// `heads`. On ranks 0 to 3 of 4:
  ///
  ///     heads_of(8)  →  heads [0, 2) [2, 4) [4, 6) [6, 8)
  ///     heads_of(2)  →  heads [0, 1) [0, 1) [1, 2) [1, 2)
  [[nodiscard]] row_range heads_of(index heads) const {
    if (heads >= size) return part_of(heads, "the number of key heads");
    require(heads > 0 && size % heads == 0, "tensor parallelism: ", size,
            " ranks cannot share the number of key heads ", heads,
            " equally; choose a degree of tensor of at most ", std::max<index>(heads, 1),
            ", or a multiple of it");
    return {rank / (size / heads), 1};
  }
  /// The number of ranks that hold the same key head.
  [[nodiscard]] int sharers_of(index heads) const {
    return heads >= size ? 1 : static_cast<int>(size / heads);
  }
  /// The query heads of this rank: all that use its key heads, or a part of those that use a key
  /// head which it shares with neighbours.
  [[nodiscard]] row_range queries_of(ops::head_layout const& layout) const {
    auto const equal = part_of(layout.heads, "the number of heads");
    if (layout.kv_heads == 0) return equal;
    auto const keys = heads_of(layout.kv_heads);
    index const queries_per_key = layout.heads / layout.kv_heads;  // queries of a key head
    index const sharers = sharers_of(layout.kv_heads);
    auto const part = axis_position{rank % sharers, sharers}.part_of(queries_per_key,
                                                                     "the queries of a key head");
    return {keys.begin * queries_per_key + part.begin,
            (keys.count - 1) * queries_per_key + part.count};
  }
  /// The layout of this rank's heads.
  [[nodiscard]] ops::head_layout part_of(ops::head_layout const& layout) const {
    return {.heads = queries_of(layout).count,
            .kv_heads = heads_of(layout.kv_heads).count,
            .dim = layout.dim};
  }
};

/// The rows of the heads `heads`, each of `dim` rows, in a matrix in which head 0 begins at row
/// `first`.
[[nodiscard]] constexpr row_range rows_of_heads(row_range heads, index dim, index first = 0) {
  return {first + heads.begin * dim, heads.count * dim};
}

/// For each rank, the columns that it has of rows of all query heads.
[[nodiscard]] inline std::vector<row_range> columns_of_queries(index ranks,
                                                               ops::head_layout const& layout) {
  std::vector<row_range> out;
  for (index r = 0; r < ranks; ++r)
    out.push_back(rows_of_heads(axis_position{r, ranks}.queries_of(layout), layout.dim));
  return out;
}
/// For each rank, the columns that it has of rows of all key heads; neighbours may have the same.
[[nodiscard]] inline std::vector<row_range> columns_of_keys(index ranks,
                                                            ops::head_layout const& layout) {
  std::vector<row_range> out;
  for (index r = 0; r < ranks; ++r)
    out.push_back(rows_of_heads(axis_position{r, ranks}.heads_of(layout.kv_heads), layout.dim));
  return out;
}

/// This rank's rows of a whole parameter; on a single rank the parameter stays whole.
template <class T, std::size_t N>
[[nodiscard]] parameter<T, N> keep_rows(axis_position position, parameter<T, N> whole,
                                        std::vector<row_range> rows) {
  if (position.size > 1) whole.keep_rows(std::move(rows));
  return whole;
}

/// This rank's columns of a whole parameter; on a single rank the parameter stays whole.
template <class T>
[[nodiscard]] parameter<T, 2> keep_columns(axis_position position, parameter<T, 2> whole,
                                           row_range columns) {
  if (position.size > 1) whole.keep_columns(columns.begin, columns.count);
  return whole;
}

/// The outputs `rows` of a linear layer; `replication` states which other ranks hold them. The
/// first factor of an adapter stays whole, and its gradients are addends.
template <class T>
[[nodiscard]] linear<T> keep_outputs(axis_position position, linear<T> whole,
                                     std::vector<row_range> const& rows,
                                     parameter_replication replication = {}) {
  whole.weight = keep_rows(position, std::move(whole.weight), rows);
  whole.bias = keep_rows(position, std::move(whole.bias), rows);
  whole.weight.replicated(replication);
  whole.bias.replicated(replication);
  whole.adapter.a.replicated({static_cast<int>(position.size), position.size > 1});
  whole.adapter.b = keep_rows(position, std::move(whole.adapter.b), rows);
  whole.adapter.b.replicated(replication);
  return whole;
}

/// The projections of this rank's heads. A neighbour that shares a key head uses it for different
/// queries, so the gradients of its rows are addends.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(axis_position position, ops::head_layout layout,
                                                linear<T> q, linear<T> k, linear<T> v) {
  auto const queries = rows_of_heads(position.queries_of(layout), layout.dim);
  auto const keys = rows_of_heads(position.heads_of(layout.kv_heads), layout.dim);
  int const sharers = position.sharers_of(layout.kv_heads);
  parameter_replication const shared{sharers, sharers > 1};
  return {keep_outputs(position, std::move(q), {queries}),
          keep_outputs(position, std::move(k), {keys}, shared),
          keep_outputs(position, std::move(v), {keys}, shared)};
}

/// This rank's slice of a projection to queries alone.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_queries(axis_position position, ops::head_layout layout,
                                                  linear<T> q) {
  return {keep_outputs(position, std::move(q),
                       {rows_of_heads(position.queries_of(layout), layout.dim)})};
}

/// This rank's slices of one projection to rows [Q | K | V].
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(axis_position position, ops::head_layout layout,
                                                linear<T> const& qkv) {
  auto const queries = rows_of_heads(position.queries_of(layout), layout.dim);
  auto const key_heads = position.heads_of(layout.kv_heads);
  auto const keys = rows_of_heads(key_heads, layout.dim, layout.width());
  auto const values = rows_of_heads(key_heads, layout.dim, layout.width() + layout.kv_width());
  int const sharers = position.sharers_of(layout.kv_heads);
  require(sharers == 1 || !qkv.adapter.is_present(), "tensor parallelism: ", position.size,
          " ranks share ", layout.kv_heads, " key heads, where ", qkv.weight.name,
          " cannot have an adapter; choose a degree of tensor of at most ", layout.kv_heads);
  if (sharers > 1)  // a shared head becomes a separate slice
    return {keep_outputs(position, qkv, {queries}),
            keep_outputs(position, qkv, {keys}, {sharers, true}),
            keep_outputs(position, qkv, {values}, {sharers, true})};
  return {keep_outputs(position, qkv, {queries, keys, values})};
}

/// The inputs `columns` of a linear layer. The second factor of an adapter stays whole, and its
/// gradients are addends. The bias, if any, belongs to `reduce`.
template <class T>
[[nodiscard]] linear<T> keep_inputs(axis_position position, linear<T> whole, row_range columns) {
  whole.weight = keep_columns(position, std::move(whole.weight), columns);
  whole.adapter.a = keep_columns(position, std::move(whole.adapter.a), columns);
  whole.adapter.b.replicated({static_cast<int>(position.size), position.size > 1});
  return whole;
}

}  // namespace parallel::tensor
