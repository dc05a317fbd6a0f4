// kernel: the CUDA kernel that runs a body, and its launch. For nvcc. Tests replace this file by
// another one of the same name, earlier in the include path, which runs bodies on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda::detail {

/// The thread_block of a GPU (block.hpp).
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

/// Allows blocks of this kernel to use `bytes` of shared memory on the current device.
template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t allow_shared(std::size_t bytes) {
  if (bytes <= 48 * 1024) return cudaSuccess;  // every kernel may use this much
  return cudaFuncSetAttribute(run_body<Threads, Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

/// Enqueues `blocks` blocks of `Threads` threads that run `body`.
template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t start(cudaStream_t stream, std::size_t blocks, std::size_t shared_bytes,
                                Body const& body) {
  run_body<Threads, Body><<<static_cast<unsigned>(blocks), Threads, shared_bytes, stream>>>(body);
  return cudaGetLastError();
}

}  // namespace parallel::cuda::detail
