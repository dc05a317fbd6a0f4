// How element-wise kernels are launched: a grid-stride loop over blocks of 256 threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::cuda::detail {

inline constexpr unsigned threads_per_block = 256;

/// Blocks for `count` elements; more than 2^16 blocks gain nothing, the loop goes on.
[[nodiscard]] inline unsigned blocks_for(std::size_t count) {
  std::size_t const blocks = (count + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(std::min<std::size_t>(blocks, 65536));
}

/// Calls kernel(arguments..., count) over `count` elements on the stream; nothing when there are
/// none. Throws `error` naming `operation` when CUDA refuses the launch.
template <class Kernel, class... Arguments>
void launch_over(stream& s, char const* operation, std::size_t count, Kernel kernel,
                 Arguments... arguments) {
  if (count == 0) return;
  device_scope const scope(s.device());
  kernel<<<blocks_for(count), threads_per_block, 0, s.get()>>>(arguments..., count);
  check(cudaGetLastError(), operation);
}

}  // namespace parallel::cuda::detail
