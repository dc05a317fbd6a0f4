// all_gather_matmul and matmul_reduce_scatter: entering and leaving a region of the tensor axis
// with the exchange cut into shards, so that it hides behind the product next to it (Wang et al.,
// "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
// Models", ASPLOS 2023, section 5).
//
// Each rank exchanges a shard with every other directly: in step i with the ranks i places on and
// before. Bytes sent are those of all_gather and reduce_scatter, (n-1) shards of n.
//
// A device that has a kernel for the whole (copy engines, symmetric memory) overloads
//   all_gather_matmul_impl(c, ranks, y, all, shard, b, options)
//   matmul_reduce_scatter_impl(c, ranks, y, a, b, options, more)
// beside its stream, where c's stream type finds it; else both are built of ops::matmul and shift,
// for which the group needs its second stream.
#pragma once

#include <type_traits>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

namespace detail {

/// The rows of rank `rank`, of equal shards in rank order.
template <class T>
[[nodiscard]] matrix_view<T> shard_of(matrix_view<T> all, int rank, int ranks) {
  index const rows = all.extent(0) / ranks;
  return all.slice(rank * rows, (rank + 1) * rows);
}

template <class T>
void check_shards(char const* what, matrix_view<T> all, index rows, int ranks) {
  require(all.extent(0) == rows * ranks, what, ": ", all.extent(0), " rows are not ", ranks,
          " shards of ", rows);
}

/// y = Σ of the n shards of `addends`, in order; as a collective does, in accumulate_t and rounded
/// once.
template <class Stream, class T>
void sum_shards(context<Stream>& c, matrix_view<T> y, matrix_view<T> addends, int n) {
  auto const addend = [&](int i) { return shard_of(matrix_view<T const>(addends), i, n).span(); };
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    ops::copy(c.stream, y.span(), addend(0));
    for (int i = 1; i < n; ++i) ops::add(c.stream, y.span(), addend(i));
  } else {
    using A = accumulate_t<T>;
    auto const sum = c.template allocate<A, 2>(y.extents());
    auto const wide = c.template allocate<A, 2>(y.extents());
    ops::cast(c.stream, sum.span(), addend(0));
    for (int i = 1; i < n; ++i) {
      ops::cast(c.stream, wide.span(), addend(i));
      ops::add(c.stream, sum.span(), std::span<A const>(wide.span()));
    }
    ops::cast(c.stream, y.span(), sum.span());
  }
}

template <class Stream, class T, class Comm>
void all_gather_matmul(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                       matrix_view<T> y, matrix_view<T> all, matrix_view<T const> shard,
                       matrix_view<T const> b, ops::matmul_options options) {
  int const n = ranks.size();
  int const here = ranks.rank();
  // nothing that is sent depends on what arrives, so all of it is under way from the start
  std::vector<typename axis_group<axis::tensor, Comm>::exchange_type> coming;
  coming.reserve(static_cast<std::size_t>(n - 1));
  for (int i = 1; i < n; ++i)
    coming.push_back(
        ranks.shift(c.stream, shard_of(all, (here + n - i) % n, n).span(), shard.span(), i));
  ops::matmul(c.stream, shard_of(y, here, n), shard, b, options);
  ops::copy(c.stream, shard_of(all, here, n).span(), shard.span());
  for (int i = 1; i < n; ++i) {
    int const source = (here + n - i) % n;
    coming[static_cast<std::size_t>(i - 1)].wait_on(c.stream);
    ops::matmul(c.stream, shard_of(y, source, n), shard_of(all, source, n), b, options);
  }
  ranks.note_exchange(c.stream, meta::exchange_kind::all_gather, all.span(), shard.span());
}

template <class Stream, class T, class Comm>
void matmul_reduce_scatter(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                           matrix_view<T> y, matrix_view<T const> a, matrix_view<T const> b,
                           ops::matmul_options options, matrix_view<T const> more) {
  int const n = ranks.size();
  int const here = ranks.rank();
  auto const addend = [&](matrix_view<T> to, int rank) {
    ops::matmul(c.stream, to, shard_of(a, rank, n), b, options,
                !more.empty() ? shard_of(more, rank, n) : matrix_view<T const>{});
  };
  arena::scope const temporaries(c.memory);
  auto const addends = c.template allocate<T, 2>({a.extent(0), y.extent(1)});  // of rows here
  auto const leaving = c.template allocate<T, 2>({(n - 1) * y.extent(0), y.extent(1)});
  std::vector<typename axis_group<axis::tensor, Comm>::exchange_type> going;
  going.reserve(static_cast<std::size_t>(n - 1));
  for (int i = 1; i < n; ++i) {
    auto const part = shard_of(leaving, i - 1, n - 1);
    addend(part, (here + i) % n);
    going.push_back(
        ranks.shift(c.stream, shard_of(addends, (here + n - i) % n, n).span(), part.span(), i));
  }
  addend(shard_of(addends, here, n), here);
  for (auto& one : going) one.wait_on(c.stream);
  sum_shards(c, y, addends, n);
  ranks.note_exchange(c.stream, meta::exchange_kind::reduce_scatter, y.span(),
                      std::span<T const>(addends.span()));
}

}  // namespace detail

struct all_gather_matmul_fn {
  template <class Stream, class T, class Comm>
  void operator()(context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks,
                  own_columns<T> y_here, matrix_view<T> all,
                  std::type_identity_t<matrix_view<T const>> shard,
                  std::type_identity_t<matrix_view<T const>> b,
                  ops::matmul_options options = {}) const {
    auto const y = y_here.columns;
    detail::check_shards("all_gather_matmul", all, shard.extent(0), ranks.size());
    detail::check_shards("all_gather_matmul", y, shard.extent(0), ranks.size());
    if constexpr (requires { all_gather_matmul_impl(c, ranks, y, all, shard, b, options); })
      all_gather_matmul_impl(c, ranks, y, all, shard, b, options);
    else
      detail::all_gather_matmul(c, ranks, y, all, shard, b, options);
  }
};
/// all_gather_matmul(c, ranks, y, all, shard, b, {.transpose_b}): `all` [n rows, k] becomes the
/// shards [rows, k] of all n ranks in rank order, y [n rows, width] = all op(b). Each shard is
/// multiplied when it is there, this rank's first, while later ones are on their way; an element of
/// y has the bits that ops::matmul gives it among the rows of its shard. Each rank has its own b,
/// so y is some columns of a product.
inline constexpr all_gather_matmul_fn all_gather_matmul{};

struct matmul_reduce_scatter_fn {
  template <class Stream, class T, class Comm>
  [[nodiscard]] matrix_view<T> operator()(
      context<Stream>& c, axis_group<axis::tensor, Comm> const& ranks, own_columns<T const> a_here,
      std::type_identity_t<matrix_view<T const>> b, ops::matmul_options options = {},
      std::type_identity_t<addend<T const>> more_here = {}) const {
    auto const a = a_here.columns;
    matrix_view<T const> const more = more_here.addend;
    index const rows = a.extent(0) / ranks.size();
    detail::check_shards("matmul_reduce_scatter", a, rows, ranks.size());
    if (!more.empty()) detail::check_shards("matmul_reduce_scatter", more, rows, ranks.size());
    auto const y = c.template allocate<T, 2>({rows, b.extent(options.transpose_b ? 0 : 1)});
    if constexpr (requires { matmul_reduce_scatter_impl(c, ranks, y, a, b, options, more); })
      matmul_reduce_scatter_impl(c, ranks, y, a, b, options, more);
    else
      detail::matmul_reduce_scatter(c, ranks, y, a, b, options, more);
    return y;
  }
};
/// matmul_reduce_scatter(c, ranks, a, b, {.transpose_b}, more): this rank's shard y [rows, width]
/// of the sum over ranks of a op(b) + more [n rows, width], each with its own columns a [n rows,
/// k], rows b of a product's factors, and `more`, or none. The shards of others are multiplied
/// first, and each is sent while the next is. The sum is taken in rank order, as reduce_scatter
/// takes it. Besides y it needs, for its time, 2n-1 shards, n-1 more than the product and its
/// reduce_scatter.
inline constexpr matmul_reduce_scatter_fn matmul_reduce_scatter{};

}  // namespace parallel::tensor
