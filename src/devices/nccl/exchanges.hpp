// with_exchanges: the communicator for device memory in a build with NCCL: NCCL if each rank has
// its own GPU, else the ranks' control communicator. CMake chooses between this file and
// no_nccl/exchanges.hpp.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/nccl/comm_stream.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/cuda/device.hpp>

namespace apps {

using gpu_communicator = parallel::basic_any_communicator<parallel::cuda::stream>;

/// An NCCL communicator of the ranks of `control`, which must outlive it; none if ranks share a
/// GPU. `recorder`, if not null, records its calls. Rank 0 prints which communicator is used.
/// Collective.
[[nodiscard]] std::optional<gpu_communicator> connect_gpus(
    parallel::any_communicator& control, parallel::cuda::device& device,
    parallel::shared_deadline const& deadline, std::shared_ptr<parallel::flight_recorder> recorder);

/// Calls f(communicator) with the communicator for memory of `device`. Collective.
template <class Device, class F>
decltype(auto) with_exchanges(parallel::any_communicator& control, Device& device,
                              parallel::shared_deadline const& deadline,
                              std::shared_ptr<parallel::flight_recorder> const& recorder, F&& f) {
  if constexpr (std::is_same_v<Device, parallel::cuda::device>)
    if (auto gpus = connect_gpus(control, device, deadline, recorder)) return f(*gpus);
  return f(control);
}

}  // namespace apps
