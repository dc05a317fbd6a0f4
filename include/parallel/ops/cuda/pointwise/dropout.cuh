// Launcher of dropout on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/dropout.hpp>
#include <parallel/ops/cuda/pointwise/elementwise.cuh>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::dropout_arguments<T> const& a) {
  if (a.options.probability == 0.0F) return run_operation(s, ops::copy_arguments<T>{a.y, a.x});
  auto const [blocks, body] = kernel_of(one_kernel{}, a);
  detail::launch(s, a.name, blocks, body);
}

}  // namespace parallel::cuda
