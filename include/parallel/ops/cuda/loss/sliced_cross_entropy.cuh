// Launchers of cross entropy over a sliced vocabulary on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/cuda/loss/launch_softmax.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/loss/sliced_cross_entropy.hpp>

namespace parallel::cuda {

template <class A, class Logit>
void enqueue(stream& s, ops::vocabulary_statistics_arguments<A, Logit> const& a) {
  index const columns = a.logits.extent(1);
  detail::launch_softmax<kernels::softmax_scratch<A, Logit>>(
      s, "vocabulary_statistics", a.logits.extent(0), columns, false,
      kernels::vocabulary_statistics<A, Logit>{a.statistics.data(), a.logits.data(),
                                               a.labels.data(), columns,
                                               static_cast<A>(a.options.scale), a.options.first});
}

template <class T, class Loss, class Logit>
void enqueue(stream& s, ops::sliced_cross_entropy_arguments<T, Loss, Logit> const& a) {
  using A = accumulate_t<T>;
  index const rows = a.logits.extent(0);
  index const columns = a.logits.extent(1);
  detail::launch_softmax<kernels::softmax_scratch<A, Logit>>(
      s, "sliced_cross_entropy", rows, columns, false,
      kernels::sliced_cross_entropy<T, Loss, Logit>{
          a.dlogits.empty() ? nullptr : a.dlogits.data(), a.losses.data(), a.correct.data(),
          a.logits.data(), a.labels.data(), a.statistics.data(), a.statistics.extent(0), rows,
          columns, static_cast<A>(a.options.scale), a.options.ignore, a.options.first,
          a.options.vocabulary});
}

}  // namespace parallel::cuda
