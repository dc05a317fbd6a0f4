// The stream for exchanges of a GPU's memory over NCCL: a CUDA stream of high priority, so that an
// exchange for which other ranks wait begins before computation that is not scheduled yet.
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
