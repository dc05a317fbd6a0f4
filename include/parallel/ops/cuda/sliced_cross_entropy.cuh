// The launchers of cross entropy over a divided vocabulary on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/sliced_cross_entropy.hpp>
#include <parallel/ops/cuda/launch_softmax.cuh>
#include <parallel/ops/cuda/sliced_cross_entropy.hpp>

namespace parallel::cuda {

template <class A, class Logit>
void vocabulary_statistics_impl(stream& s, matrix_view<A> statistics,
                                matrix_view<Logit const> logits,
                                vector_view<std::int32_t const> labels,
                                ops::sliced_cross_entropy_options options) {
  index const columns = logits.extent(1);
  detail::launch_softmax<kernels::softmax_scratch<A, Logit>>(
      s, "vocabulary_statistics", logits.extent(0), columns, false,
      kernels::vocabulary_statistics<A, Logit>{statistics.data(), logits.data(), labels.data(),
                                               columns, static_cast<A>(options.scale),
                                               options.first});
}

template <class T, class Loss, class Logit>
void sliced_cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                               vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                               vector_view<std::int32_t const> labels,
                               tensor_view<accumulate_t<T> const, 3> statistics,
                               ops::sliced_cross_entropy_options options) {
  using A = accumulate_t<T>;
  index const rows = logits.extent(0);
  index const columns = logits.extent(1);
  detail::launch_softmax<kernels::softmax_scratch<A, Logit>>(
      s, "sliced_cross_entropy", rows, columns, false,
      kernels::sliced_cross_entropy<T, Loss, Logit>{
          dlogits.empty() ? nullptr : dlogits.data(), losses.data(), correct.data(), logits.data(),
          labels.data(), statistics.data(), statistics.extent(0), rows, columns,
          static_cast<A>(options.scale), options.ignore, options.first, options.vocabulary});
}

}  // namespace parallel::cuda
