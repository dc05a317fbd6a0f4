// How much of a memory each rank may plan with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// Bytes for each rank where this one finds `found` bytes of a memory that `sharing` ranks share:
/// nine tenths of its part, for something always comes beside a plan. The least of what any rank
/// finds, so that all make the same plan; 0 where one of them finds 0, which is not to know.
/// Collective.
[[nodiscard]] inline std::size_t available_to_each(std::size_t found, int sharing,
                                                   parallel::any_communicator& comm) {
  auto bytes = static_cast<std::int64_t>(found / 10 * 9) / sharing;
  parallel::host::stream exchanges;
  comm.all_reduce(exchanges, std::span<std::int64_t>(&bytes, 1), parallel::reduction::min).wait();
  return static_cast<std::size_t>(bytes);
}

}  // namespace mpt
