// Cross entropy over a sliced vocabulary as two kernels: one block per row of the slice's columns,
// see softmax_rows.hpp. Cost: each kernel reads the logits once, and the gradient is written once.
//
// The statistics process rows from the last to the first, since the product left the last rows in
// the cache; the gradient from the first to the last, since the statistics left the first ones.
#pragma once

#include <cmath>
#include <cstdint>

#include <parallel/ops/cuda/kernels/loss/softmax_rows.hpp>
#include <parallel/ops/loss/sliced_cross_entropy.hpp>

namespace parallel::cuda::kernels {

/// One block per row. Shared memory: softmax_scratch<A, Logit>::bytes(columns, false).
template <class A, class Logit>
struct vocabulary_statistics {
  A* statistics;
  Logit const* logits;
  std::int32_t const* labels;
  index columns;
  A scale;
  index first;  // the slice's first column in the vocabulary

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const m = static_cast<index>(b.blocks() - 1 - b.block());
    row_groups<Logit const> const row(logits + m * columns, static_cast<unsigned>(columns));
    auto const [top, column, sum] =
        statistics_of_row(b, row, scale, false, *b.template shared<softmax_scratch<A, Logit>>());
    if (b.thread() != 0) return;
    index const label = labels[m] - first;
    bool const in_slice = 0 <= label && label < columns;
    A* const to = statistics + m * ops::vocabulary_statistics_count;
    to[0] = top;
    to[1] = static_cast<A>(sum);
    to[2] = in_slice ? row.data[label] * scale : -A(INFINITY);
    to[3] = static_cast<A>(first + index{column});
  }
};

/// One block per row. Shared memory: one joined_statistics.
template <class T, class Loss, class Logit>
struct sliced_cross_entropy {
  using A = accumulate_t<T>;
  using joined = ops::detail::joined_statistics;

  T* dlogits;  // null: no gradient; may be the logits
  Loss* losses;
  std::uint8_t* correct;
  Logit const* logits;
  std::int32_t const* labels;
  A const* statistics;  // [ranks, rows, 4]
  index ranks;
  index rows;
  index columns;
  A scale;
  std::int32_t ignore;
  index first;
  index vocabulary;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const m = static_cast<index>(b.block());
    auto const count = static_cast<unsigned>(columns);
    index const label = labels[m];
    bool const ignored = label == ignore;
    bool const known = 0 <= label && label < vocabulary;  // otherwise all results are NaN
    joined& shared = *b.template shared<joined>();
    if (b.thread() == 0) {
      constexpr index numbers = ops::vocabulary_statistics_count;
      shared = joined(statistics + m * numbers, ranks, rows * numbers);
      double const loss = known ? shared.loss() : double(NAN);
      losses[m] = ignored ? Loss(0) : static_cast<Loss>(loss);
      correct[m] = !ignored && shared.column == label && loss == loss ? 1 : 0;
    }
    if (dlogits == nullptr) return;
    T* const to = dlogits + m * columns;
    if (ignored) return zero_row<A>(b, to, count);
    b.sync();
    gradient_of_row(b, to, row_groups<Logit const>(logits + m * columns, count), scale,
                    static_cast<A>(shared.top), known ? scale / static_cast<A>(shared.sum) : A(NAN),
                    label - first, shared.sum);
  }
};

}  // namespace parallel::cuda::kernels
