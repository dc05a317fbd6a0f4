// Element-wise operations on cuda::stream: kernels, and copies of contiguous arrays by CUDA. For
// nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::copy_arguments<T> const& a) {
  if (a.y.empty() || a.y.data() == a.x.data()) return;
  device_scope const scope(s.device());
  check(s.run("copy",
              [&] {
                return cudaMemcpyAsync(a.y.data(), a.x.data(), a.y.size_bytes(), cudaMemcpyDefault,
                                       s.get());
              }),
        "copy");
}

}  // namespace parallel::cuda
