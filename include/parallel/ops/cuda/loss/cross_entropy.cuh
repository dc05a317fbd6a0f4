// Launcher of cross_entropy on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/loss/cross_entropy.hpp>
#include <parallel/ops/cuda/loss/launch_softmax.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/loss/cross_entropy.hpp>

namespace parallel::cuda {

template <class T, class Loss, class Logit>
void enqueue(stream& s, ops::cross_entropy_arguments<T, Loss, Logit> const& a) {
  using scratch = kernels::softmax_scratch<accumulate_t<T>, Logit>;
  index const columns = a.logits.extent(1);
  T* const gradient = a.dlogits.empty() ? nullptr : a.dlogits.data();
  bool const keep = gradient != nullptr && detail::keeps_row<scratch>(s, columns);
  detail::launch_softmax<scratch>(
      s, "cross_entropy", a.logits.extent(0), columns, keep,
      kernels::cross_entropy<T, Loss, Logit>{
          gradient, a.losses.data(), a.correct.data(), a.logits.data(), a.labels.data(), columns,
          static_cast<accumulate_t<T>>(a.options.scale), a.options.ignore, keep});
}

}  // namespace parallel::cuda
