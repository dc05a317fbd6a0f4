// all_gather_matmul and matmul_reduce_scatter: entering and leaving a tensor region with the
// exchange cut into shards, so that it overlaps with the neighbouring product (Wang et al.,
// "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
// Models", ASPLOS 2023, section 5).
//
// Each rank exchanges a shard with every other rank directly: in step i it sends to the rank i
// places after it and receives from the rank i places before it. The bytes sent are those of
// all_gather and reduce_scatter: (n-1) shards of n.
//
// A device that has a kernel for the whole operation (copy engines, symmetric memory) overloads
//   all_gather_matmul_impl(c, ranks, y, gathered, shard, b, options)
//   matmul_reduce_scatter_impl(c, ranks, y, a, b, options, summand)
// in the namespace of its stream, where ADL finds it; otherwise both consist of ops::matmul and
// shift, for which the group needs its second stream.
#pragma once

#include <type_traits>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

namespace detail {

/// The rows of rank `rank`, in equal shards in rank order.
template <class T>
[[nodiscard]] matrix_view<T> shard_of(matrix_view<T> rows_of_all_ranks, int rank, int ranks) {
  index const rows = rows_of_all_ranks.extent(0) / ranks;
  return rows_of_all_ranks.slice(rank * rows, (rank + 1) * rows);
}

template <class T>
void check_shards(char const* operation, matrix_view<T> rows_of_all_ranks, index rows, int ranks) {
  require(rows_of_all_ranks.extent(0) == rows * ranks, operation, ": ", rows_of_all_ranks.extent(0),
          " rows are not ", ranks, " shards of ", rows);
}

/// y = Σ of the shards of `addends` in rank order; as in a collective, the sum is in accumulate_t
/// and rounded once.
template <class Stream, class T>
void sum_shards(context<Stream>& c, matrix_view<T> y, matrix_view<T> addends, int ranks) {
  auto const addend = [&](int i) {
    return shard_of(matrix_view<T const>(addends), i, ranks).span();
  };
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    ops::copy(c.stream, y.span(), addend(0));
    for (int i = 1; i < ranks; ++i) ops::add(c.stream, y.span(), addend(i));
  } else {
    using A = accumulate_t<T>;
    auto const sum = c.template allocate<A, 2>(y.extents());
    auto const wide = c.template allocate<A, 2>(y.extents());
    ops::cast(c.stream, sum.span(), addend(0));
    for (int i = 1; i < ranks; ++i) {
      ops::cast(c.stream, wide.span(), addend(i));
      ops::add(c.stream, sum.span(), std::span<A const>(wide.span()));
    }
    ops::cast(c.stream, y.span(), sum.span());
  }
}

template <class Stream, class T, class Comm>
void all_gather_matmul(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                       matrix_view<T> y, matrix_view<T> gathered, matrix_view<T const> shard,
                       matrix_view<T const> b, ops::matmul_options options) {
  int const n = ranks.size();
  int const own_rank = ranks.rank();
  // nothing that is sent depends on what is received, so all transfers start at once
  std::vector<typename axis_group<axis::tensor, Comm>::exchange_type> receives;
  receives.reserve(static_cast<std::size_t>(n - 1));
  for (int i = 1; i < n; ++i)
    receives.push_back(ranks.shift(c.stream, shard_of(gathered, (own_rank + n - i) % n, n).span(),
                                   shard.span(), i));
  ops::matmul(c.stream, shard_of(y, own_rank, n), shard, b, options);
  ops::copy(c.stream, shard_of(gathered, own_rank, n).span(), shard.span());
  for (int i = 1; i < n; ++i) {
    int const source = (own_rank + n - i) % n;
    receives[static_cast<std::size_t>(i - 1)].wait_on(c.stream);
    ops::matmul(c.stream, shard_of(y, source, n), shard_of(gathered, source, n), b, options);
  }
  ranks.note_exchange(c.stream, meta::exchange_kind::all_gather, gathered.span(), shard.span());
}

template <class Stream, class T, class Comm>
void matmul_reduce_scatter(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                           matrix_view<T> y, matrix_view<T const> a, matrix_view<T const> b,
                           ops::matmul_options options, matrix_view<T const> summand) {
  int const n = ranks.size();
  int const own_rank = ranks.rank();
  auto const addend = [&](matrix_view<T> product, int rank) {
    ops::matmul(c.stream, product, shard_of(a, rank, n), b, options,
                !summand.empty() ? shard_of(summand, rank, n) : matrix_view<T const>{});
  };
  arena::scope const temporaries(c.memory);
  auto const addends = c.template allocate<T, 2>({a.extent(0), y.extent(1)});  // of the local rows
  auto const outgoing = c.template allocate<T, 2>({(n - 1) * y.extent(0), y.extent(1)});
  std::vector<typename axis_group<axis::tensor, Comm>::exchange_type> sends;
  sends.reserve(static_cast<std::size_t>(n - 1));
  for (int i = 1; i < n; ++i) {
    auto const shard = shard_of(outgoing, i - 1, n - 1);
    addend(shard, (own_rank + i) % n);
    sends.push_back(ranks.shift(c.stream, shard_of(addends, (own_rank + n - i) % n, n).span(),
                                shard.span(), i));
  }
  addend(shard_of(addends, own_rank, n), own_rank);
  for (auto& send : sends) send.wait_on(c.stream);
  sum_shards(c, y, addends, n);
  ranks.note_exchange(c.stream, meta::exchange_kind::reduce_scatter, y.span(),
                      std::span<T const>(addends.span()));
}

}  // namespace detail

/// all_gather_matmul(c, ranks, y, gathered, shard, b, {.transpose_b}): `gathered` [n rows, k]
/// becomes the shards [rows, k] of all n ranks in rank order, and y [n rows, width] = gathered
/// op(b). Each shard is multiplied when it has arrived, this rank's first, while later shards are
/// in transit; an element of y has the bits that ops::matmul gives it among the rows of its shard.
/// Each rank has its own b, so y is some columns of a product.
inline constexpr auto all_gather_matmul =
    []<class Stream, class T, class Comm>(
        context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks, own_columns<T> own_y,
        matrix_view<T> gathered, std::type_identity_t<matrix_view<T const>> shard,
        std::type_identity_t<matrix_view<T const>> b, ops::matmul_options options = {}) {
      auto const y = own_y.columns;
      detail::check_shards("all_gather_matmul", gathered, shard.extent(0), ranks.size());
      detail::check_shards("all_gather_matmul", y, shard.extent(0), ranks.size());
      if constexpr (requires { all_gather_matmul_impl(c, ranks, y, gathered, shard, b, options); })
        all_gather_matmul_impl(c, ranks, y, gathered, shard, b, options);
      else
        detail::all_gather_matmul(c, ranks, y, gathered, shard, b, options);
    };

/// matmul_reduce_scatter(c, ranks, a, b, {.transpose_b}, summand): this rank's shard y [rows,
/// width] of the sum over ranks of a op(b) + summand [n rows, width]. Each rank has its own columns
/// a [n rows, k] and rows b of the factors of one product, and its own `summand`, if any. The
/// shards of other ranks are multiplied first, and each is sent while the next is multiplied. The
/// sum is taken in rank order, as reduce_scatter takes it. Besides y it temporarily needs 2n-1
/// shards, n-1 more than the product and its reduce_scatter.
inline constexpr auto matmul_reduce_scatter =
    []<class Stream, class T, class Comm>(
        context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks, own_columns<T const> own_a,
        std::type_identity_t<matrix_view<T const>> b, ops::matmul_options options = {},
        std::type_identity_t<addend<T const>> own_summand = {}) -> matrix_view<T> {
  auto const a = own_a.columns;
  matrix_view<T const> const summand = own_summand.addend;
  index const rows = a.extent(0) / ranks.size();
  detail::check_shards("matmul_reduce_scatter", a, rows, ranks.size());
  if (!summand.empty()) detail::check_shards("matmul_reduce_scatter", summand, rows, ranks.size());
  auto const y = c.template allocate<T, 2>({rows, b.extent(options.transpose_b ? 0 : 1)});
  if constexpr (requires { matmul_reduce_scatter_impl(c, ranks, y, a, b, options, summand); })
    matmul_reduce_scatter_impl(c, ranks, y, a, b, options, summand);
  else
    detail::matmul_reduce_scatter(c, ranks, y, a, b, options, summand);
  return y;
};

}  // namespace parallel::tensor
