// The memory that each rank may plan with, and the number of ranks that share a device.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// The bytes that each rank may use, where this rank finds `found` bytes of a memory that `sharing`
/// ranks share: nine tenths of its part, a reserve for what no plan counts. Returns the minimum
/// over the ranks, so that all make the same plan; 0 (unknown) where any rank finds 0. Collective.
[[nodiscard]] std::size_t available_per_rank(std::size_t found, int sharing,
                                             parallel::any_communicator& comm);

/// The number of ranks on this rank's device: those whose devices have the same identity(),
/// whichever devices each process sees. Collective.
template <class Device>
[[nodiscard]] int ranks_on_device(Device const& device, parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  auto const identity = device.identity();
  return static_cast<int>(
      std::ranges::count(parallel::gather_texts(comm, exchanges, identity), identity));
}

}  // namespace mpt
