// The launcher of cross_entropy on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/cross_entropy.hpp>
#include <parallel/ops/cuda/kernels/cross_entropy.hpp>
#include <parallel/ops/cuda/launch_softmax.cuh>

namespace parallel::cuda {

template <class T, class Loss>
void cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                        vector_view<std::uint8_t> correct,
                        matrix_view<accumulate_t<T> const> logits,
                        vector_view<std::int32_t const> labels,
                        ops::cross_entropy_options options) {
  using A = accumulate_t<T>;
  index const columns = logits.extent(1);
  T* const gradient = dlogits.empty() ? nullptr : dlogits.data();
  bool const keep = gradient != nullptr && detail::keeps_row<A>(s, columns);
  detail::launch_softmax<A>(
      s, "cross_entropy", logits.extent(0), columns, keep,
      kernels::cross_entropy<T, Loss>{gradient, losses.data(), correct.data(), logits.data(),
                                      labels.data(), columns, static_cast<A>(options.scale),
                                      options.ignore, keep});
}

}  // namespace parallel::cuda
