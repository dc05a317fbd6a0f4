// grid: a kernel's body with the number of blocks that run it, for operations that are one kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// Blocks that share `count` elements when every thread takes `each` in turn; more than 2^16 blocks
/// gain nothing, the threads go on.
template <unsigned Threads = 256>
[[nodiscard]] constexpr std::size_t blocks_for(std::size_t count, std::size_t each = 1) {
  return std::min<std::size_t>((count + Threads * each - 1) / (Threads * each), 65536);
}

/// Blocks of 256 threads without shared memory.
template <class Body>
struct grid {
  std::size_t blocks;
  Body body;
};
template <class Body>
grid(std::size_t, Body) -> grid<Body>;

/// By which `kernel_of(one_kernel, arguments)`, the grid of an operation, is found.
struct one_kernel {};

}  // namespace parallel::cuda
