// Launcher of dropout on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/dropout.hpp>
#include <parallel/ops/cuda/pointwise/elementwise.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/pointwise/dropout.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::dropout_arguments<T> const& a) {
  if (a.options.probability == 0.0F) return run_operation(s, ops::copy_arguments<T>{a.y, a.x});
  detail::launch(s, "dropout", detail::blocks_for(a.y.size(), pack_size<T>),
                 kernels::dropout<T>{a.y.data(), a.x.data(), a.y.size(), a.options});
}

}  // namespace parallel::cuda
