// nccl::communicator on fake GPUs and the fake NCCL: every exchange to the bit, at whatever pace
// streams run.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/device_exchanges.hpp"

namespace fake_nccl_communicator_test {

void check(int ranks, std::uint64_t seed) {
  CAPTURE(ranks);
  CAPTURE(seed);
  fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed});
  fake_nccl::restart();
  CHECK_NOTHROW(fake_nccl::ranks()(ranks, [](auto& comm) {
    auto const device = fake_cuda::current_gpu();
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{131}}) {
      test::check_device_exchanges<std::uint64_t>(comm, device, count);
      test::check_device_exchanges<float>(comm, device, count);
      test::check_device_exchanges<parallel::bf16>(comm, device, count);
    }
  }));
  auto const failures = fake_nccl::happened().failures;
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures.front()));
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("every exchange is that of a serial loop") {
  for (int const ranks : {1, 2, 3, 4}) check(ranks, static_cast<std::uint64_t>(ranks));
}

TEST_CASE("a communicator that goes waits for its operations while the watchdog forgets them") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart();
  CHECK_NOTHROW(fake_nccl::ranks({.look_every = std::chrono::milliseconds(0)})(2, [](auto& comm) {
    auto const device = fake_cuda::current_gpu();
    auto const x = device.template allocate_zeroed<float>(8);
    auto const options = parallel::comm_options<parallel::nccl::communicator>(device);
    parallel::cuda::stream on{options}, other{options};
    for (int round = 0; round < 5; ++round) {
      auto part = comm.split(0, "data");
      for (int i = 0; i < 12; ++i)
        part.all_reduce(on, x.span(), parallel::reduction::sum).wait_on(other);
    }
  }));
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

}  // namespace fake_nccl_communicator_test
