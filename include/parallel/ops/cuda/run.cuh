// Operations that consist of one kernel on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/run.hpp>

namespace parallel::cuda {

/// `kernel_of` is defined next to the kernel.
template <class Arguments>
void enqueue(stream& s, Arguments const& a) {
  auto const [blocks, body] = kernel_of(one_kernel{}, a);
  detail::launch(s, Arguments::name, blocks, body);
}

}  // namespace parallel::cuda
