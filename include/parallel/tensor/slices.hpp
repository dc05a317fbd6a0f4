// Which slices of a layer's parameters a tensor rank holds: about equal ones, since its degree need
// not divide heads, hidden units or the vocabulary.
#pragma once

#include <algorithm>
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

  /// This rank's part of `count`: parts differ by one at most, and lower ranks have the larger
  /// ones. Where they are long and `count` is not divisible, they begin at multiples of 8, which
  /// matrix units ask for, and differ by 15 at most. Throws when there is not one for each rank;
  /// `what` names what is counted.
  [[nodiscard]] row_range part_of(index count, std::string_view what) const {
    require(count >= size, "tensor parallelism: ", what, " ", count, " is not enough for ", size,
            " ranks; choose a degree of tensor of at most ", std::max<index>(count, 1));
    index const unit = count % size != 0 && count / size >= 512 ? 8 : 1;
    index const units = (count + unit - 1) / unit;  // the last may be shorter
    auto const begin_of = [&](index r) {
      return std::min(count, (r * (units / size) + std::min(r, units % size)) * unit);
    };
    return {begin_of(rank), begin_of(rank + 1) - begin_of(rank)};
  }

  /// The key or value heads that this rank's query heads use: its part, or with fewer heads than
  /// ranks, which then must divide these, one that neighbours hold too.
  [[nodiscard]] row_range heads_of(index heads) const {
    if (heads >= size) return part_of(heads, "the number of key heads");
    require(heads > 0 && size % heads == 0, "tensor parallelism: ", size,
            " ranks cannot share the number of key heads ", heads,
            " equally; choose a degree of tensor of at most ", std::max<index>(heads, 1),
            ", or a multiple of it");
    return {rank / (size / heads), 1};
  }
  /// How many neighbours hold the same key head.
  [[nodiscard]] int sharers_of(index heads) const {
    return heads >= size ? 1 : static_cast<int>(size / heads);
  }
  /// The query heads that are here: all that use the key heads which are here alone, or a part of
  /// those that use a key head which neighbours hold too.
  [[nodiscard]] row_range queries_of(ops::head_layout const& all) const {
    auto const equal = part_of(all.heads, "the number of heads");
    if (all.kv_heads == 0) return equal;
    auto const keys = heads_of(all.kv_heads);
    index const each = all.heads / all.kv_heads;  // queries of a key head
    index const sharers = sharers_of(all.kv_heads);
    auto const part = place{rank % sharers, sharers}.part_of(each, "the queries of a key head");
    return {keys.begin * each + part.begin, (keys.count - 1) * each + part.count};
  }
  /// Of all heads those that are here.
  [[nodiscard]] ops::head_layout part_of(ops::head_layout const& all) const {
    return {
        .heads = queries_of(all).count, .kv_heads = heads_of(all.kv_heads).count, .dim = all.dim};
  }
};

/// Rows of heads of `dim` each, of which those in `heads` are here, in a matrix where head 0 begins
/// at row `first`.
[[nodiscard]] constexpr row_range rows_of_heads(row_range heads, index dim, index first = 0) {
  return {first + heads.begin * dim, heads.count * dim};
}

/// By rank, which columns it has of rows of all query heads.
[[nodiscard]] inline std::vector<row_range> columns_of_queries(index ranks,
                                                               ops::head_layout const& all) {
  std::vector<row_range> out;
  for (index r = 0; r < ranks; ++r)
    out.push_back(rows_of_heads(place{r, ranks}.queries_of(all), all.dim));
  return out;
}
/// The slices of all key heads, of which neighbours may have the same one.
[[nodiscard]] inline std::vector<row_range> columns_of_keys(index ranks,
                                                            ops::head_layout const& all) {
  std::vector<row_range> out;
  for (index r = 0; r < ranks; ++r)
    out.push_back(rows_of_heads(place{r, ranks}.heads_of(all.kv_heads), all.dim));
  return out;
}

/// Of a whole parameter the rows that are here; on one rank all stays as it is.
template <class T, std::size_t N>
[[nodiscard]] parameter<T, N> keep_rows(place here, parameter<T, N> whole,
                                        std::vector<row_range> rows) {
  if (here.size > 1) whole.keep_rows(std::move(rows));
  return whole;
}

/// Of a whole parameter the columns that are here; on one rank all stays as it is.
template <class T>
[[nodiscard]] parameter<T, 2> keep_columns(place here, parameter<T, 2> whole, row_range columns) {
  if (here.size > 1) whole.keep_columns(columns.begin, columns.count);
  return whole;
}

/// The outputs `rows` of a linear layer, which `replication` says who else holds; of an adapter the
/// whole first factor, whose gradients are addends.
template <class T>
[[nodiscard]] linear<T> keep_outputs(place here, linear<T> whole,
                                     std::vector<row_range> const& rows,
                                     parameter_replication replication = {}) {
  whole.weight = keep_rows(here, std::move(whole.weight), rows);
  whole.bias = keep_rows(here, std::move(whole.bias), rows);
  whole.weight.replicated(replication);
  whole.bias.replicated(replication);
  whole.adapter.a.replicated({static_cast<int>(here.size), here.size > 1});
  whole.adapter.b = keep_rows(here, std::move(whole.adapter.b), rows);
  whole.adapter.b.replicated(replication);
  return whole;
}

/// The projections of the heads that are here. A key head that neighbours hold too is used by other
/// queries there, so its gradients are addends.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(place here, ops::head_layout all, linear<T> q,
                                                linear<T> k, linear<T> v) {
  auto const queries = rows_of_heads(here.queries_of(all), all.dim);
  auto const keys = rows_of_heads(here.heads_of(all.kv_heads), all.dim);
  int const sharers = here.sharers_of(all.kv_heads);
  parameter_replication const shared{sharers, sharers > 1};
  return {keep_outputs(here, std::move(q), {queries}),
          keep_outputs(here, std::move(k), {keys}, shared),
          keep_outputs(here, std::move(v), {keys}, shared)};
}

/// The slice of a projection to queries alone.
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_queries(place here, ops::head_layout all, linear<T> q) {
  return {keep_outputs(here, std::move(q), {rows_of_heads(here.queries_of(all), all.dim)})};
}

/// The slices of one projection to rows [Q | K | V].
template <class T>
[[nodiscard]] std::vector<linear<T>> keep_heads(place here, ops::head_layout all,
                                                linear<T> const& qkv) {
  auto const queries = rows_of_heads(here.queries_of(all), all.dim);
  auto const own = here.heads_of(all.kv_heads);
  auto const keys = rows_of_heads(own, all.dim, all.width());
  auto const values = rows_of_heads(own, all.dim, all.width() + all.kv_width());
  int const sharers = here.sharers_of(all.kv_heads);
  require(sharers == 1 || !qkv.adapter.present(), "tensor parallelism: ", here.size,
          " ranks share ", all.kv_heads, " key heads, where ", qkv.weight.name,
          " cannot have an adapter; choose a degree of tensor of at most ", all.kv_heads);
  if (sharers > 1)  // what is shared is a slice of its own
    return {keep_outputs(here, qkv, {queries}), keep_outputs(here, qkv, {keys}, {sharers, true}),
            keep_outputs(here, qkv, {values}, {sharers, true})};
  return {keep_outputs(here, qkv, {queries, keys, values})};
}

/// The inputs `columns` of a linear layer; of an adapter the whole second factor, whose gradients
/// are addends. Its bias, if any, belongs to `reduce`.
template <class T>
[[nodiscard]] linear<T> keep_inputs(place here, linear<T> whole, row_range columns) {
  whole.weight = keep_columns(here, std::move(whole.weight), columns);
  whole.adapter.a = keep_columns(here, std::move(whole.adapter.a), columns);
  whole.adapter.b.replicated({static_cast<int>(here.size), here.size > 1});
  return whole;
}

}  // namespace parallel::tensor
