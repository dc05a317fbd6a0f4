// launch: runs the bodies of kernels on a cuda::stream. For nvcc.
#pragma once

#include <cstddef>

#include <parallel/device/cuda/block.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/device/cuda/kernel.cuh>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::cuda::detail {

using cuda::blocks_for;

/// The largest shared memory of a block on the stream's device, in bytes.
[[nodiscard]] inline std::size_t shared_limit(stream const& s) {
  int max_bytes = 0;
  check(cudaDeviceGetAttribute(&max_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, s.device()),
        "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(max_bytes);
}

/// Enqueues `blocks` blocks of `Threads` threads that run `body`, with `shared_bytes` of shared
/// memory per block; nothing if `blocks` is 0. Throws `error`, naming `operation`, if CUDA fails.
template <unsigned Threads = 256, class Body>
void launch(stream& s, char const* operation, std::size_t blocks, Body const& body,
            std::size_t shared_bytes = 0) {
  static_assert(Threads % warp_size == 0 && Threads <= 1024);
  static_assert(sizeof(Body) <= 32764, "a kernel's arguments take at most 32 764 bytes");
  if (blocks == 0) return;
  device_scope const scope(s.device());
  check(allow_shared<Threads, Body>(shared_bytes), operation);
  check(s.run(operation, [&] { return start<Threads, Body>(s.get(), blocks, shared_bytes, body); }),
        operation);
}

}  // namespace parallel::cuda::detail
