// How the bodies of kernels are run on a cuda::stream: the block of threads as nvcc sees it, and
// the launch. For nvcc.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/device/cuda/block.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::cuda::detail {

/// See block.hpp.
class device_block {
 public:
  [[nodiscard]] __device__ unsigned thread() const { return threadIdx.x; }
  [[nodiscard]] __device__ unsigned threads() const { return blockDim.x; }
  [[nodiscard]] __device__ unsigned block() const { return blockIdx.x; }
  [[nodiscard]] __device__ unsigned blocks() const { return gridDim.x; }
  __device__ void sync() { __syncthreads(); }

  template <class A>
  [[nodiscard]] __device__ A shuffle_xor(A value, unsigned mask) {
    return __shfl_xor_sync(0xffffffffU, value, static_cast<int>(mask));
  }

  template <class T>
  [[nodiscard]] __device__ T* shared() {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory);
  }
};

template <unsigned Threads, class Body>
__global__ void __launch_bounds__(Threads) run_body(Body const body) {
  device_block block;
  body(block);
}

using cuda::blocks_for;

/// The most bytes of shared memory that a block may ask for on the stream's device.
[[nodiscard]] inline std::size_t shared_limit(stream const& s) {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, s.device()),
        "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(most);
}

/// Enqueues `blocks` blocks of `Threads` threads that run `body`, with `shared_bytes` of shared
/// memory each; nothing when there are no blocks. Throws `error` naming `operation` when CUDA
/// refuses.
template <unsigned Threads = 256, class Body>
void launch(stream& s, char const* operation, std::size_t blocks, Body const& body,
            std::size_t shared_bytes = 0) {
  static_assert(Threads % warp_size == 0 && Threads <= 1024);
  static_assert(sizeof(Body) <= 4096, "a kernel's arguments take at most 4 KiB");
  if (blocks == 0) return;
  device_scope const scope(s.device());
  auto* const kernel = run_body<Threads, Body>;
  if (shared_bytes > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          operation);
  check(s.run(operation,
              [&] {
                kernel<<<static_cast<unsigned>(blocks), Threads, shared_bytes, s.get()>>>(body);
                return cudaGetLastError();
              }),
        operation);
}

}  // namespace parallel::cuda::detail
