// What cross_entropy and its divided form share: the statistics of a row of logits in one pass
// (online softmax: Milakov, Gimelshein, 2018), and the gradient in a second one.
//
// One block a row. A thread's sum of exponentials is relative to the greatest number it has met and
// rescaled when that grows; threads are joined in double, in a fixed order. Where the row fits into
// shared memory, the second pass reads it there, so logits come from memory once.
#pragma once

#include <cmath>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/instructions.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/cuda/row_groups.hpp>

namespace parallel::cuda::kernels {

/// Of z = scale * logit in a row: the greatest, the first column that reaches it, and the sum of
/// exp(z - greatest): 0 when all z are -infinity, and NaN when one is NaN or +infinity (the column
/// then says nothing).
template <class A>
struct softmax_statistics {
  A top;
  unsigned column;
  double sum;
};

/// Shared memory of a block; the row of logits of type L that it keeps comes after it.
template <class A, class L = A>
struct alignas(16) softmax_scratch {
  double sums[warp_size];
  A tops[warp_size];
  unsigned columns[warp_size];

  [[nodiscard]] PARALLELLM_DEVICE L* row() { return reinterpret_cast<L*>(this + 1); }
  /// Bytes with a row of `columns`, or without one.
  [[nodiscard]] static std::size_t bytes(index columns, bool keep) {
    auto const count = static_cast<std::size_t>(keep ? columns : 0);
    return sizeof(softmax_scratch) + (count + pack_size<L>)*sizeof(L);
  }
};

/// e^x, which in float has a relative error of at most 2.4e-7 + 1e-7 |x|: of what is small beside
/// the greatest.
template <class A>
[[nodiscard]] PARALLELLM_DEVICE A exponential(A x) {
  if constexpr (std::is_same_v<A, float>)
    return fast_exp2(x * 1.44269504F);  // log2(e)
  else
    return std::exp(x);
}

struct smaller {
  template <class A>
  PARALLELLM_DEVICE A operator()(A a, A b) const {
    return b < a ? b : a;
  }
};

/// The statistics of a row, the same in every thread; a copy of the row in `scratch` if `keep`.
template <class A, class L, class Block>
[[nodiscard]] PARALLELLM_DEVICE softmax_statistics<A> statistics_of_row(
    Block& b, row_groups<L const> const& row, A scale, bool keep, softmax_scratch<A, L>& scratch) {
  constexpr unsigned each = pack_size<L>;
  constexpr A least = -A(INFINITY);
  constexpr unsigned none = ~0U;
  row_groups<L> const copy(scratch.row(), row.count);

  A top = least;
  A sum = 0;
  unsigned column = none;
  for_each_loaded_group<4>(b, row, row.aligned, [&]<bool whole>(unsigned p, auto const& values) {
    if (keep) copy.store_whole(p, values);  // which has room for a last group in full
    A z[each];
    A most = top;
    unrolled<each>([&](unsigned i) {
      z[i] = whole || i < row.valid(p) ? values.value[i] * scale : least;
      most = std::fmax(most, z[i]);
    });
    if (most > top || column == none) {  // seldom
      if (most > top) sum *= exponential(top - most);
      top = most;
      column = p * each;
      unrolled<each>([&](unsigned i) {
        if (z[each - 1 - i] == top) column = p * each + each - 1 - i;
      });
    }
    A const shift = top == least ? A(0) : top;  // while all are -infinity
    unrolled<each>([&](unsigned i) { sum += exponential(z[i] - shift); });
  });

  A const all = combine_block(b, top, scratch.tops, larger{});
  if (top != all) {
    sum = top == least ? sum : sum * exponential(top - all);
    column = none;
  }
  double const total = combine_block(b, static_cast<double>(sum), scratch.sums, plus{});
  column = combine_block(b, column, scratch.columns, smaller{});
  return {all, column == none ? 0 : column, total};
}

/// Writes factor * exp(z - top), and at_label * scale in the label's column: there in double, since
/// 1 - probability may cancel. `label` is its column, or any number outside of the row for none.
template <class T, class A, class L, class Block>
PARALLELLM_DEVICE void gradient_of_row(Block& b, T* to, row_groups<L const> const& row, A scale,
                                       A top, A factor, index label, double sum) {
  constexpr unsigned each = pack_size<L>;
  row_groups<T, each> const out(to, row.count);
  unsigned own = ~0U;  // the group that has the label
  unsigned lane = 0;
  A at_label = 0;
  if (0 <= label && label < index{row.count}) {
    own = static_cast<unsigned>(label) / each;
    lane = static_cast<unsigned>(label) % each;
    if (own % b.threads() == b.thread()) {
      double const z = static_cast<double>(row.data[label] * scale);
      at_label = static_cast<A>(double(scale) * (std::exp(z - double(top)) / sum - 1.0));
    }
  }
  bool const aligned = row.aligned && out.aligned;
  for_each_loaded_group<4>(b, row, aligned, [&]<bool whole>(unsigned p, auto const& values) {
    typename row_groups<T, each>::group_type gradient{};
    unrolled<each>([&](unsigned i) {
      gradient.value[i] = static_cast<T>(exponential(values.value[i] * scale - top) * factor);
    });
    if (p == own)
      unrolled<each>([&](unsigned i) {
        if (i == lane) gradient.value[i] = static_cast<T>(at_label);
      });
    if constexpr (whole)
      out.store_whole(p, gradient);
    else
      out.store(p, gradient);
  });
}

/// The gradient of a row that has no loss.
template <class A, class T, class Block>
PARALLELLM_DEVICE void zero_row(Block& b, T* to, unsigned columns) {
  row_groups<T> const out(to, columns);
  for_each_group<0>(b, out.groups(), [&](unsigned p, unsigned) { out.store(p, {}); });
}

}  // namespace parallel::cuda::kernels
