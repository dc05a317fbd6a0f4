// How much of a memory each rank may plan with, and how many ranks share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// Bytes for each rank where this one finds `found` bytes of a memory that `sharing` ranks share:
/// nine tenths of its part, for something always comes beside a plan. The least of what any rank
/// finds, so that all make the same plan; 0 where one of them finds 0, which is not to know.
/// Collective.
[[nodiscard]] inline std::size_t available_per_rank(std::size_t found, int sharing,
                                                    parallel::any_communicator& comm) {
  auto bytes = static_cast<std::int64_t>(found / 10 * 9) / sharing;
  parallel::host::stream exchanges;
  comm.all_reduce(exchanges, std::span<std::int64_t>(&bytes, 1), parallel::reduction::min).wait();
  return static_cast<std::size_t>(bytes);
}

/// How many ranks have this rank's device: those whose devices have the same identity(), whatever
/// else each process sees of its machine. Collective.
template <class Device>
[[nodiscard]] int ranks_on_device(Device const& device, parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  auto const mine = device.identity();
  return static_cast<int>(std::ranges::count(parallel::gather_texts(comm, exchanges, mine), mine));
}

}  // namespace mpt
