// The launcher of cross_entropy on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/cross_entropy.hpp>
#include <parallel/ops/cuda/kernels/cross_entropy.hpp>
#include <parallel/ops/cuda/launch_softmax.cuh>

namespace parallel::cuda {

template <class T, class Loss, class Logit>
void cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                        vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                        vector_view<std::int32_t const> labels,
                        ops::cross_entropy_options options) {
  using scratch = kernels::softmax_scratch<accumulate_t<T>, Logit>;
  index const columns = logits.extent(1);
  T* const gradient = dlogits.empty() ? nullptr : dlogits.data();
  bool const keep = gradient != nullptr && detail::keeps_row<scratch>(s, columns);
  detail::launch_softmax<scratch>(
      s, "cross_entropy", logits.extent(0), columns, keep,
      kernels::cross_entropy<T, Loss, Logit>{
          gradient, losses.data(), correct.data(), logits.data(), labels.data(), columns,
          static_cast<accumulate_t<T>>(options.scale), options.ignore, keep});
}

}  // namespace parallel::cuda
