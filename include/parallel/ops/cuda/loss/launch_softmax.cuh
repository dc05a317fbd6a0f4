// launch_softmax: one block per row of logits, which keeps the row in shared memory if it fits. For
// nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/loss/softmax_rows.hpp>

namespace parallel::cuda::detail {

/// Whether a row of logits fits into the shared memory of a block on the stream's device. Scratch
/// is a softmax_scratch.
template <class Scratch>
[[nodiscard]] bool keeps_row(stream& s, index columns) {
  return Scratch::bytes(columns, true) <= shared_limit(s);
}

/// Enqueues `rows` blocks of a body of softmax_rows.hpp. The fewer rows fit a multiprocessor with
/// 227 KiB, the more threads work on each: together 1024, or somewhat less.
template <class Scratch, class Body>
void launch_softmax(stream& s, char const* operation, index rows, index columns, bool keep,
                    Body const& body) {
  auto const blocks = static_cast<std::size_t>(rows);
  auto const bytes = Scratch::bytes(columns, keep);
  auto const row = Scratch::bytes(columns, true);
  if (row <= 68 * 1024)  // three rows and more
    launch<256>(s, operation, blocks, body, bytes);
  else if (row <= 112 * 1024)  // two
    launch<512>(s, operation, blocks, body, bytes);
  else
    launch<1024>(s, operation, blocks, body, bytes);
}

}  // namespace parallel::cuda::detail
