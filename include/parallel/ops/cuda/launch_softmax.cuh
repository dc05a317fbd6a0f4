// One block a row of logits, which keeps the row in shared memory where it fits. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/softmax_rows.hpp>

namespace parallel::cuda::detail {

/// Whether a row of logits of A fits into the shared memory of a block on the stream's device.
template <class A>
[[nodiscard]] bool keeps_row(stream& s, index columns) {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, s.device()),
        "cudaDeviceGetAttribute");
  return kernels::softmax_scratch<A>::bytes(columns, true) <= static_cast<std::size_t>(most);
}

/// Enqueues `rows` blocks of a body of softmax_rows.hpp. Where a multiprocessor has room for one
/// row only, its threads are as many as it can run.
template <class A, class Body>
void launch_softmax(stream& s, char const* operation, index rows, index columns, bool keep,
                    Body const& body) {
  auto const blocks = static_cast<std::size_t>(rows);
  auto const bytes = kernels::softmax_scratch<A>::bytes(columns, keep);
  if (columns <= 16384)
    launch<256>(s, operation, blocks, body, bytes);
  else
    launch<1024>(s, operation, blocks, body, bytes);
}

}  // namespace parallel::cuda::detail
