// Where exchanges of a GPU's memory over NCCL run: on a CUDA stream of high priority, so that an
// exchange that others wait for begins before computation that is still to be scheduled.
#pragma once

#include <parallel/comm/comm_stream.hpp>
#include <parallel/device/cuda/device.hpp>

namespace parallel {

template <>
struct comm_stream_of<cuda::device, cuda::stream> {
  using type = cuda::stream;
  [[nodiscard]] static cuda::stream_options options(cuda::device const& device) {
    return {.device = device.ordinal(), .urgent = true};
  }
};

}  // namespace parallel
