// The shared parts of cross_entropy and its sliced form: the statistics of a row of logits in one
// pass (online softmax: Milakov, Gimelshein, 2018), and the gradient in a second one.
//
// One block per row. A thread's sum of exponentials is relative to the greatest number it has seen,
// and rescaled when that grows; the sums of threads are added in double, in a fixed order. If the
// row fits into shared memory, the second pass reads it from there, so that logits come from memory
// once.
#pragma once

#include <cmath>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/instructions.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/cuda/row_groups.hpp>

namespace parallel::cuda::kernels {

/// The statistics of z = scale * logit in a row: the greatest z, the first column that reaches it,
/// and the sum of exp(z - greatest): 0 when all z are -infinity, and NaN when one is NaN or
/// +infinity (the column is then undefined).
template <class A>
struct softmax_statistics {
  A top;
  unsigned column;
  double sum;
};

/// The shared memory of a block; the row of logits of type L that it keeps follows it.
template <class A, class L = A>
struct alignas(16) softmax_scratch {
  double sums[warp_size];
  A tops[warp_size];
  unsigned columns[warp_size];

  [[nodiscard]] PARALLELLM_DEVICE L* row() { return reinterpret_cast<L*>(this + 1); }
  /// Bytes with a row of `columns` logits, or without one.
  [[nodiscard]] static std::size_t bytes(index columns, bool keep) {
    auto const count = static_cast<std::size_t>(keep ? columns : 0);
    return sizeof(softmax_scratch) + (count + pack_size<L>)*sizeof(L);
  }
};

/// e^x. In float the relative error is at most 2.4e-7 + 1e-7 |x|: it grows only where e^x is small
/// compared with the greatest term.
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

/// The statistics of a row, the same in every thread. Copies the row to `scratch` if `keep` is set.
template <class A, class L, class Block>
[[nodiscard]] PARALLELLM_DEVICE softmax_statistics<A> statistics_of_row(
    Block& b, row_groups<L const> const& row, A scale, bool keep, softmax_scratch<A, L>& scratch) {
  constexpr unsigned pack_elements = pack_size<L>;
  constexpr A lowest = -A(INFINITY);
  constexpr unsigned none = ~0U;
  row_groups<L> const copy(scratch.row(), row.count);

  A top = lowest;
  A sum = 0;
  unsigned column = none;
  for_each_loaded_group<4>(b, row, row.aligned, [&]<bool whole>(unsigned p, auto const& values) {
    if (keep) copy.store_whole(p, values);  // scratch has room for a full last group
    A z[pack_elements];
    A new_top = top;
    unrolled<pack_elements>([&](unsigned i) {
      z[i] = whole || i < row.valid(p) ? values.value[i] * scale : lowest;
      new_top = std::fmax(new_top, z[i]);
    });
    if (new_top > top || column == none) {  // seldom
      if (new_top > top) sum *= exponential(top - new_top);
      top = new_top;
      column = p * pack_elements;
      unrolled<pack_elements>([&](unsigned i) {
        if (z[pack_elements - 1 - i] == top) column = p * pack_elements + pack_elements - 1 - i;
      });
    }
    A const shift = top == lowest ? A(0) : top;  // as long as all z are -infinity
    unrolled<pack_elements>([&](unsigned i) { sum += exponential(z[i] - shift); });
  });

  A const row_top = combine_block(b, top, scratch.tops, larger{});
  if (top != row_top) {
    sum = top == lowest ? sum : sum * exponential(top - row_top);
    column = none;
  }
  double const total = combine_block(b, static_cast<double>(sum), scratch.sums, plus{});
  column = combine_block(b, column, scratch.columns, smaller{});
  return {row_top, column == none ? 0 : column, total};
}

/// Writes factor * exp(z - top). The label's column, if it is in the row, gets scale * (probability
/// - 1), computed in double, since 1 - probability may cancel. A `label` outside of the row means
/// none.
template <class T, class A, class L, class Block>
PARALLELLM_DEVICE void gradient_of_row(Block& b, T* to, row_groups<L const> const& row, A scale,
                                       A top, A factor, index label, double sum) {
  constexpr unsigned pack_elements = pack_size<L>;
  row_groups<T, pack_elements> const out(to, row.count);
  unsigned label_group = ~0U;  // the group that contains the label
  unsigned lane = 0;
  A at_label = 0;
  if (0 <= label && label < index{row.count}) {
    label_group = static_cast<unsigned>(label) / pack_elements;
    lane = static_cast<unsigned>(label) % pack_elements;
    if (label_group % b.threads() == b.thread()) {
      double const z = static_cast<double>(row.data[label] * scale);
      at_label = static_cast<A>(double(scale) * (std::exp(z - double(top)) / sum - 1.0));
    }
  }
  bool const aligned = row.aligned && out.aligned;
  for_each_loaded_group<4>(b, row, aligned, [&]<bool whole>(unsigned p, auto const& values) {
    typename row_groups<T, pack_elements>::group_type gradient{};
    unrolled<pack_elements>([&](unsigned i) {
      gradient.value[i] = static_cast<T>(exponential(values.value[i] * scale - top) * factor);
    });
    if (p == label_group)
      unrolled<pack_elements>([&](unsigned i) {
        if (i == lane) gradient.value[i] = static_cast<T>(at_label);
      });
    if constexpr (whole)
      out.store_whole(p, gradient);
    else
      out.store(p, gradient);
  });
}

/// Writes the gradient of a row that has no loss.
template <class A, class T, class Block>
PARALLELLM_DEVICE void zero_row(Block& b, T* to, unsigned columns) {
  row_groups<T> const out(to, columns);
  for_each_group<0>(b, out.groups(), [&](unsigned p, unsigned) { out.store(p, {}); });
}

}  // namespace parallel::cuda::kernels
