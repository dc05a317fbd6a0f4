// with_exchanges: the communicator for device memory in a build without NCCL, which is the ranks'
// control communicator. CMake chooses between this file and nccl/exchanges.hpp.
#pragma once

#include <memory>

#include <mpt/console/say.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/transfer.hpp>

namespace apps {

/// Calls f(communicator) with the communicator for memory of the device. Collective.
template <class Device, class F>
decltype(auto) with_exchanges(parallel::any_communicator& control, Device& /*device*/,
                              parallel::shared_deadline const& /*deadline*/,
                              std::shared_ptr<parallel::flight_recorder> const& /*recorder*/,
                              F&& f) {
  if (!parallel::host_reaches<Device> && control.size() > 1 && control.rank() == 0)
    mpt::console::say(
        "note: ranks exchange without NCCL, which this program was built without; for several GPUs "
        "install libnccl-dev and build again\n");
  return f(control);
}

}  // namespace apps
