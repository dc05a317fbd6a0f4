// cuda::comm_stream: the stream on which host communicators exchange a GPU's memory.
//
// It is a host stream, so that ranks meet, wait and fail as they do on the CPU; its worker moves
// the data by the copies and kernels of a data_mover, which run concurrently with the computation.
// It waits for the compute stream's events without holding up the compute stream.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>

namespace parallel::cuda {

struct comm_stream_options {
  stream_options mover_stream = {};
  /// Cores for the worker; empty: the system chooses.
  std::vector<int> cores = {};
};

namespace detail {
struct owns_mover {
  cuda::data_mover gpu_mover;  // outlives the worker
};
}  // namespace detail

class comm_stream : private detail::owns_mover, public issuing_stream {
 public:
  explicit comm_stream(comm_stream_options options = {})
      : owns_mover{cuda::data_mover(options.mover_stream)},
        issuing_stream(gpu_mover.stream(), {.cores = std::move(options.cores), .mover = &gpu_mover}) {}
};

}  // namespace parallel::cuda

namespace parallel {
template <>
struct comm_stream_of<cuda::device, host::stream> {
  using type = cuda::comm_stream;
  [[nodiscard]] static cuda::comm_stream_options options(cuda::device const& device) {
    return {.mover_stream = device.compute_options()};
  }
};
}  // namespace parallel
