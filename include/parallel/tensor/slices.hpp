// Which slices of a layer's parameters a tensor rank holds.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/head_layout.hpp>

namespace parallel::tensor {

/// A place on the tensor axis.
struct place {
  index rank = 0;
  index size = 1;

  /// This rank's equal part of `count`, which `what` names in the refusal when it is not divisible.
  [[nodiscard]] row_range part_of(index count, std::string_view what) const {
    require(count % size == 0, "tensor parallelism: ", what, " ", count, " cannot be divided by ",
            size, " ranks; choose a degree of tensor that divides it");
    return {rank * (count / size), count / size};
  }

  /// The key or value heads that this rank's query heads use: its equal part, or with fewer heads
  /// than ranks one that neighbours hold too.
  [[nodiscard]] row_range heads_of(index heads) const {
    if (heads >= size || size % heads != 0) return part_of(heads, "the number of key heads");
    return {rank / (size / heads), 1};
  }
  /// How many neighbours hold the same key head.
  [[nodiscard]] int sharers_of(index heads) const {
    return heads >= size ? 1 : static_cast<int>(size / heads);
  }
  /// Of all heads those that are here.
  [[nodiscard]] ops::head_layout part_of(ops::head_layout all) const {
    return {.heads = part_of(all.heads, "the number of heads").count,
            .kv_heads = heads_of(all.kv_heads).count,
            .dim = all.dim};
  }
};

/// Rows of heads of `dim` each, of which those in `heads` are here, in a matrix where head 0 begins
/// at row `first`.
[[nodiscard]] constexpr row_range rows_of_heads(row_range heads, index dim, index first = 0) {
  return {first + heads.begin * dim, heads.count * dim};
}

/// Of a whole parameter the rows that are here; on one rank all stays as it is.
template <class T, std::size_t N>
[[nodiscard]] parameter<T, N> keep_rows(place here, parameter<T, N> whole,
                                        std::vector<row_range> rows) {
  if (here.size > 1) whole.keep_rows(std::move(rows));
  return whole;
}

/// The outputs `rows` of a linear layer, which `copies` says who else holds.
template <class T>
[[nodiscard]] linear<T> keep_outputs(place here, linear<T> whole,
                                     std::vector<row_range> const& rows,
                                     parameter_copies copies = {}) {
  whole.weight = keep_rows(here, std::move(whole.weight), rows);
  whole.bias = keep_rows(here, std::move(whole.bias), rows);
  whole.weight.copied(copies);
  whole.bias.copied(copies);
  return whole;
}

/// The projections of the heads that are here. A key head that neighbours hold too is used by other
/// queries there, so its gradients are addends.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(place here, ops::head_layout all, linear<T> q,
                                                linear<T> k, linear<T> v) {
  auto const queries = rows_of_heads(here.part_of(all.heads, "the number of heads"), all.dim);
  auto const keys = rows_of_heads(here.heads_of(all.kv_heads), all.dim);
  int const sharers = here.sharers_of(all.kv_heads);
  parameter_copies const shared{sharers, sharers > 1};
  return {keep_outputs(here, std::move(q), {queries}),
          keep_outputs(here, std::move(k), {keys}, shared),
          keep_outputs(here, std::move(v), {keys}, shared)};
}

/// The same of queries alone.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_queries(place here, ops::head_layout all, linear<T> q) {
  auto const heads = here.part_of(all.heads, "the number of heads");
  return {keep_outputs(here, std::move(q), {rows_of_heads(heads, all.dim)})};
}

/// The same of one projection to rows [Q | K | V].
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(place here, ops::head_layout all,
                                                linear<T> const& qkv) {
  auto const queries = rows_of_heads(here.part_of(all.heads, "the number of heads"), all.dim);
  auto const own = here.heads_of(all.kv_heads);
  auto const keys = rows_of_heads(own, all.dim, all.width());
  auto const values = rows_of_heads(own, all.dim, all.width() + all.kv_width());
  int const sharers = here.sharers_of(all.kv_heads);
  if (sharers > 1)  // what is shared is a slice of its own
    return {keep_outputs(here, qkv, {queries}), keep_outputs(here, qkv, {keys}, {sharers, true}),
            keep_outputs(here, qkv, {values}, {sharers, true})};
  return {keep_outputs(here, qkv, {queries, keys, values})};
}

/// The inputs `columns` of a linear layer. Its bias, if any, belongs to `reduce`.
template <class T>
[[nodiscard]] linear<T> keep_inputs(place here, linear<T> whole, row_range columns) {
  if (here.size > 1) whole.weight.keep_columns(columns.begin, columns.count);
  return whole;
}

}  // namespace parallel::tensor
