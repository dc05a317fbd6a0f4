// cuda::comm_stream: where exchanges of a GPU's memory run that ranks of the host make.
//
// A host stream, so that ranks meet, wait and fail as they do on the CPU; its worker moves the data
// by a data_mover's copies and kernels, which go on beside the computation. It waits for the
// compute stream's events without holding that up.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>

namespace parallel::cuda {

struct comm_stream_options {
  stream_options on = {};
  /// Cores for the worker; empty: wherever the system likes.
  std::vector<int> cores = {};
};

namespace detail {
struct owns_mover {
  cuda::data_mover moving;  // made before the worker starts, gone after it has ended
};
}  // namespace detail

class comm_stream : private detail::owns_mover, public issuing_stream {
 public:
  explicit comm_stream(comm_stream_options options = {})
      : owns_mover{cuda::data_mover(options.on)},
        issuing_stream(moving.stream(), {.cores = std::move(options.cores), .mover = &moving}) {}
};

}  // namespace parallel::cuda

namespace parallel {
template <>
struct comm_stream_of<cuda::device, host::stream> {
  using type = cuda::comm_stream;
  [[nodiscard]] static cuda::comm_stream_options options(cuda::device const& device) {
    return {.on = device.compute_options()};
  }
};
}  // namespace parallel
