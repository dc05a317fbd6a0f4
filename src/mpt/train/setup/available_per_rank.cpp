#include <mpt/train/setup/available_per_rank.hpp>

#include <cstdint>
#include <span>

namespace mpt {

std::size_t available_per_rank(std::size_t found, int sharing, parallel::any_communicator& comm) {
  auto bytes = static_cast<std::int64_t>(found / 10 * 9) / sharing;
  parallel::host::stream exchanges;
  comm.all_reduce(exchanges, std::span<std::int64_t>(&bytes, 1), parallel::reduction::min).wait();
  return static_cast<std::size_t>(bytes);
}

}  // namespace mpt
