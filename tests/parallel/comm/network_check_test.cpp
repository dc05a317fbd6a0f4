#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/network_check.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace network_check_test {

using namespace parallel;

/// What rank 0 is told, where rank r is on the r-th machine.
network_measurements measured(std::vector<std::string> const& machines,
                              std::uint64_t broken_call = fault::never) {
  network_measurements out;
  threads::run(static_cast<int>(machines.size()), [&](threads::communicator& whole) {
    auto const rank = static_cast<std::size_t>(whole.rank());
    faulty comm(std::move(whole), {.at = rank == 1 ? broken_call : fault::never});
    host::device device;
    auto const mine =
        check_network(device, comm, machines[rank], static_cast<double>(rank + 1), 3 << 12);
    if (rank == 0) out = mine;
  });
  return out;
}

TEST_CASE("ranks are told apart by machine") {
  auto const two = measured({"a", "b", "a", "b"});
  CHECK(two.machines == std::vector<std::string>{"a", "b", "a", "b"});
  CHECK(two.work == std::vector<double>{1, 2, 3, 4});
  CHECK(two.inside > 0);
  CHECK(two.between > 0);
  CHECK(two.copying > 0);
  CHECK(two.wrong == 0);
  auto const one = measured({"a", "a", "a"});
  CHECK(one.inside > 0);
  CHECK(one.between == 0);
  auto const apart = measured({"a", "b"});
  CHECK(apart.inside == 0);
  CHECK(apart.between > 0);
  auto const uneven = measured({"a", "a", "b"});
  CHECK(uneven.inside > 0);
  CHECK(uneven.between > 0);
}

TEST_CASE("what arrives wrong is counted") {
  std::uint64_t most = 0;
  for (std::uint64_t call = 0; call < 12; ++call) {
    try {
      most = std::max(most, measured({"a", "a", "a"}, call).wrong);
    } catch (std::exception const&) {  // names that are broken are of no machine
    }
  }
  CHECK(most > 1000);
}

}  // namespace network_check_test
