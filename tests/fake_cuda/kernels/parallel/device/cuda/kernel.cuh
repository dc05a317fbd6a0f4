// Kernels on the fake CUDA runtime: the body that a GPU's threads would run, by fibers of the host,
// a grid of the same blocks with the same shared memory. Stands before the library's file of this
// name.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <typeinfo>

#include "fake_cuda/runtime.hpp"
#include "support/host_block.hpp"

namespace parallel::cuda::detail {

template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t allow_shared(std::size_t) {
  return cudaSuccess;
}

template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t start(cudaStream_t on, std::size_t blocks, std::size_t shared_bytes,
                                Body const& body) {
  auto const kept = std::make_shared<Body const>(body);
  static_cast<void>(fake_cuda::launch(
      on,
      {typeid(Body).name(), blocks, Threads, shared_bytes, std::as_bytes(std::span(kept.get(), 1))},
      [kept, blocks, shared_bytes](std::uint64_t chance) {
        using enum testing::thread_order;
        constexpr testing::thread_order orders[] = {ascending, descending, shuffled};
        testing::host_block::run_grid(blocks, Threads, shared_bytes, orders[chance % 3], *kept);
      }));
  return cudaGetLastError();  // whatever left it, as on a GPU
}

}  // namespace parallel::cuda::detail
