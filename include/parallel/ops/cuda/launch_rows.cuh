// launch_rows: one block per row, with a number of threads that depends on the width. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/row_groups.hpp>

namespace parallel::cuda::detail {

/// Enqueues a block for each of `rows` rows, with one thread per 16 of its `columns` (32 to 1024
/// threads): the threads can keep a model's row in registers, and short rows do not wait for idle
/// warps.
template <unsigned Threads = 32, class Body>
void launch_rows(stream& s, char const* operation, index rows, index columns, Body const& body,
                 std::size_t shared_bytes) {
  if constexpr (Threads < 1024)
    if (columns > index{16} * Threads)
      return launch_rows<2 * Threads>(s, operation, rows, columns, body, shared_bytes);
  launch<Threads>(s, operation, static_cast<std::size_t>(rows), body, shared_bytes);
}

}  // namespace parallel::cuda::detail
