// Kernels on the fake CUDA runtime: fibers of the host run the body that a GPU's threads would run,
// in a grid of the same blocks with the same shared memory. This file precedes the library's file
// of the same name in the include path.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <typeinfo>

#include "fake_cuda/runtime.hpp"
#include "support/devices/host_block.hpp"

namespace parallel::cuda::detail {

template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t allow_shared(std::size_t) {
  return cudaSuccess;
}

template <unsigned Threads, class Body>
[[nodiscard]] cudaError_t start(cudaStream_t stream, std::size_t blocks, std::size_t shared_bytes,
                                Body const& body) {
  auto const shared_body = std::make_shared<Body const>(body);
  static_cast<void>(fake_cuda::launch(
      stream,
      {typeid(Body).name(), blocks, Threads, shared_bytes,
       std::as_bytes(std::span(shared_body.get(), 1))},
      [shared_body, blocks, shared_bytes](std::uint64_t chance) {
        using enum testing::thread_order;
        constexpr testing::thread_order orders[] = {ascending, descending, shuffled};
        testing::host_block::run_grid(blocks, Threads, shared_bytes, orders[chance % 3],
                                      *shared_body);
      }));
  return cudaGetLastError();  // an earlier call may have left the error, as on a GPU
}

}  // namespace parallel::cuda::detail
