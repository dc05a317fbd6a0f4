// cuda::traffic_stream: where exchanges of a GPU's memory run.
//
// A host stream, so that ranks meet, wait and fail as they do on the CPU; its worker moves the data
// by a data_mover's copies and kernels, which go on beside the computation. It waits for the
// compute stream's events without holding that up.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/comm/traffic_of.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>

namespace parallel::cuda {

struct traffic_options {
  stream_options on = {};
  /// Cores for the worker; empty: wherever the system likes.
  std::vector<int> cores = {};
};

namespace detail {
struct owns_mover {
  cuda::data_mover moving;  // made before the worker starts, gone after it has ended
};
}  // namespace detail

class traffic_stream : private detail::owns_mover, public issuing_stream {
 public:
  explicit traffic_stream(traffic_options options = {})
      : owns_mover{cuda::data_mover(options.on)},
        issuing_stream(moving.stream(), {.cores = std::move(options.cores), .mover = &moving}) {}
};

}  // namespace parallel::cuda

namespace parallel {
template <>
struct traffic_of<cuda::device> {
  using type = cuda::traffic_stream;
  [[nodiscard]] static cuda::traffic_options options(cuda::device const& device) {
    return {.on = device.compute_options()};
  }
};
}  // namespace parallel
