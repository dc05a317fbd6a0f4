// Ranks as threads exchange the memory of fake GPUs exactly: on a shared GPU, and on a GPU for each
// rank with and without peer access.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "fake_cuda/ranks.hpp"
#include "support/devices/device_exchanges.hpp"

namespace fake_exchanges_test {

using parallel::bf16;

void check(int ranks, fake_cuda::machine_options const& machine) {
  CAPTURE(ranks);
  CAPTURE(machine.devices);
  CAPTURE(machine.peers);
  CAPTURE(machine.seed);
  fake_cuda::restart(machine);
  CHECK_NOTHROW(fake_cuda::ranks_on(machine.devices)(ranks, [](auto& comm) {
    auto const device = fake_cuda::current_gpu();
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{131}}) {
      test::check_device_exchanges<std::uint64_t>(comm, device, count);
      test::check_device_exchanges<float>(comm, device, count);
      test::check_device_exchanges<bf16>(comm, device, count);
    }
  }));
  CHECK(fake_cuda::history().failures.empty());
  CHECK((fake_cuda::history().accesses_enabled > 0) == (machine.devices > 1 && machine.peers));
}

TEST_CASE("fake GPU exchanges: ranks that share a GPU") {
  for (int const ranks : {1, 2, 3}) check(ranks, {.seed = static_cast<std::uint64_t>(ranks)});
}

TEST_CASE("fake GPU exchanges: a GPU for each rank, with peer access") {
  for (std::uint64_t const seed : {0, 1, 2, 3}) check(3, {.devices = 3, .seed = seed});
}

TEST_CASE("fake GPU exchanges: a GPU for each rank, without peer access") {
  for (std::uint64_t const seed : {0, 1}) check(3, {.devices = 3, .peers = false, .seed = seed});
}

// The array is longer than one staged chunk.
TEST_CASE("fake GPU exchanges: long arrays without peer access") {
  fake_cuda::restart({.devices = 2, .peers = false});
  CHECK_NOTHROW(fake_cuda::ranks_on(2)(2, [](auto& comm) {
    test::check_device_exchanges<std::uint8_t>(comm, fake_cuda::current_gpu(), (1U << 20U) + 17);
  }));
}

}  // namespace fake_exchanges_test
