// What exchanges of devices' memory go by in a build with NCCL: NCCL where each rank has a GPU of
// its own, else what connects the ranks for all else. Its twin is no_nccl/exchanges.hpp; CMake
// chooses.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/nccl/comm_stream.hpp>
#include <parallel/core/shared_deadline.hpp>
#include <parallel/device/cuda/device.hpp>

namespace apps {

using gpu_communicator = parallel::basic_any_communicator<parallel::cuda::stream>;

/// NCCL's communicator of the ranks of `control`, which must outlive it; none where ranks share a
/// GPU. Its calls are noted in `recorder`, if there is one. Says on rank 0 which it is. Collective.
[[nodiscard]] std::optional<gpu_communicator> connect_gpus(
    parallel::any_communicator& control, parallel::cuda::device& device,
    parallel::shared_deadline const& deadline, std::shared_ptr<parallel::flight_recorder> recorder);

/// Calls f(communicator) with what exchanges memory of `device`. Collective.
template <class Device, class F>
decltype(auto) with_exchanges(parallel::any_communicator& control, Device& device,
                              parallel::shared_deadline const& deadline,
                              std::shared_ptr<parallel::flight_recorder> const& recorder, F&& f) {
  if constexpr (std::is_same_v<Device, parallel::cuda::device>)
    if (auto gpus = connect_gpus(control, device, deadline, recorder)) return f(*gpus);
  return f(control);
}

}  // namespace apps
