// Exchanges between ranks that share a device whose memory the host cannot reach.
#include <doctest/doctest.h>

#include <memory>

#include <parallel/comm/threads/run.hpp>

#include "support/devices/device_exchanges.hpp"
#include "support/devices/guarded_device.hpp"

namespace exchange_mover_test {

TEST_CASE(
    "exchange mover: every exchange of memory that the host cannot reach has the exact bits") {
  for (int const ranks : {1, 2, 3, 8}) {
    CAPTURE(ranks);
    auto const memory = std::make_shared<guarded::memory>(std::size_t{1} << 30);
    CHECK_NOTHROW(parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
      guarded::device const device(memory);
      test::check_all_device_exchanges(comm, device);
    }));
  }
}

}  // namespace exchange_mover_test
