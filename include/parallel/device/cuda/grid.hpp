// grid: the body of a kernel and its number of blocks, for operations that are a single kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// The number of blocks for `count` elements when every thread takes `per_thread` of them, at most
/// 2^16: beyond that, threads take more elements, and more blocks are no faster.
template <unsigned Threads = 256>
[[nodiscard]] constexpr std::size_t blocks_for(std::size_t count, std::size_t per_thread = 1) {
  return std::min<std::size_t>((count + Threads * per_thread - 1) / (Threads * per_thread), 65536);
}

/// A launch of `blocks` blocks of 256 threads without shared memory.
template <class Body>
struct grid {
  std::size_t blocks;
  Body body;
};
template <class Body>
grid(std::size_t, Body) -> grid<Body>;

/// Tag for argument-dependent lookup of `kernel_of(one_kernel, arguments)`, which returns the grid
/// of an operation.
struct one_kernel {};

}  // namespace parallel::cuda
