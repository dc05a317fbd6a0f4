// The launcher of dropout on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/dropout.hpp>
#include <parallel/ops/cuda/elementwise.cuh>
#include <parallel/ops/cuda/kernels/dropout.hpp>

namespace parallel::cuda {

template <class T>
void dropout_impl(stream& s, std::span<T> y, std::span<T const> x, ops::dropout_options options) {
  if (options.probability == 0.0F) return copy_impl(s, y, x);
  detail::launch(s, "dropout", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::dropout<T>{y.data(), x.data(), y.size(), options});
}

}  // namespace parallel::cuda
