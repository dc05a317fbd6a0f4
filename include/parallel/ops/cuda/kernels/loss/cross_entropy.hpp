// cross_entropy and its gradient as one kernel: one block per row, see softmax_rows.hpp.
//
// Cost: logits are read once if a row fits into shared memory (50,432 floats do, and twice as many
// bf16), else twice, and the gradient is written once. Rows are processed from the last to the
// first: the product that computed the logits wrote its last rows last, and they may still be in
// the cache.
#pragma once

#include <cmath>
#include <cstdint>

#include <parallel/ops/cuda/kernels/loss/softmax_rows.hpp>

namespace parallel::cuda::kernels {

/// One block per row. Shared memory: softmax_scratch<A, Logit>::bytes(columns, keep).
template <class T, class Loss, class Logit>
struct cross_entropy {
  using A = accumulate_t<T>;

  T* dlogits;  // null: no gradient; may be the logits
  Loss* losses;
  std::uint8_t* correct;
  Logit const* logits;
  std::int32_t const* labels;
  index columns;
  A scale;
  std::int32_t ignore;
  bool keep;  // keep the row in shared memory

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto& scratch = *b.template shared<softmax_scratch<A, Logit>>();
    auto const m = static_cast<index>(b.blocks() - 1 - b.block());
    auto const count = static_cast<unsigned>(columns);
    T* const to = dlogits == nullptr ? nullptr : dlogits + m * columns;
    index const label = labels[m];
    if (label == ignore) {
      if (b.thread() == 0) {
        losses[m] = Loss(0);
        correct[m] = 0;
      }
      if (to != nullptr) zero_row<A>(b, to, count);
      return;
    }
    row_groups<Logit const> const row(logits + m * columns, count);
    constexpr A nan = A(NAN);
    bool const known = 0 <= label && label < columns;  // a kernel cannot throw: else all is NaN
    A const z = known && b.thread() == 0 ? row.data[label] * scale : nan;
    auto const [top, column, sum] = statistics_of_row(b, row, scale, keep, scratch);
    if (b.thread() == 0) {
      double const loss = std::log(sum) + double(top) - double(z);
      losses[m] = static_cast<Loss>(loss);
      correct[m] = index{column} == label && loss == loss ? 1 : 0;
    }
    if (to != nullptr)
      gradient_of_row(b, to, keep ? row_groups<Logit const>(scratch.row(), count) : row, scale, top,
                      known ? scale / static_cast<A>(sum) : nan, label, sum);
  }
};

}  // namespace parallel::cuda::kernels
