// nccl::communicator on fake GPUs and the fake NCCL: every exchange is exact at any pace of the
// streams.
#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/device/as_graph.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/devices/device_exchanges.hpp"

namespace fake_nccl_communicator_test {

void check(int ranks, std::uint64_t seed) {
  CAPTURE(ranks);
  CAPTURE(seed);
  fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed});
  fake_nccl::restart();
  CHECK_NOTHROW(fake_nccl::ranks({.least_window_bytes = 0})(ranks, [](auto& comm) {
    auto device = fake_cuda::current_gpu();
    device.take_exchanged_from(comm.exchanged_memory());
    test::check_registered_exchanges(comm, device, 131);
  }));
  auto const failures = fake_nccl::history().failures;
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures.front()));
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("NCCL: every exchange equals a serial loop, with floats summed in any order") {
  for (int const ranks : {1, 2, 3, 4}) check(ranks, static_cast<std::uint64_t>(ranks));
}

TEST_CASE("NCCL: open_exchange allocates no memory and makes no streams") {
  fake_cuda::restart({.devices = 3, .peers = false});
  fake_nccl::restart();
  std::barrier<> barrier(3);
  CHECK_NOTHROW(fake_nccl::ranks()(3, [&](auto& comm) {
    auto part = comm.split(0, "data");
    auto const compare = [&](auto& communicator) {
      for (int round = 0; round < 3; ++round) {
        auto const announcements = communicator.open_exchange()({.peer = communicator.rank()});
        for (int rank = 0; rank < communicator.size(); ++rank)
          parallel::require(announcements[static_cast<std::size_t>(rank)].peer == rank, "wrong");
      }
    };
    barrier.arrive_and_wait();
    auto const earlier = fake_cuda::history();
    barrier.arrive_and_wait();
    compare(comm);
    compare(part);
    barrier.arrive_and_wait();
    auto const final_record = fake_cuda::history();
    parallel::require(final_record.allocations == earlier.allocations, "memory was allocated");
    parallel::require(final_record.streams == earlier.streams, "streams were made");
  }));
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("NCCL: a captured exchange runs in its graph, after the nodes captured before it") {
  constexpr std::uint64_t rounds = 4;
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    auto const n = static_cast<std::uint64_t>(ranks);
    fake_cuda::restart({.devices = ranks, .peers = false, .seed = n});
    fake_nccl::restart();
    CHECK_NOTHROW(fake_nccl::ranks()(ranks, [&](auto& comm) {
      auto const device = fake_cuda::current_gpu();
      auto const x = device.template allocate_zeroed<std::uint64_t>(131);
      auto const gathered = device.template allocate_zeroed<std::uint64_t>(131 * n);
      auto options = parallel::comm_options<parallel::nccl::communicator>(device);
      options.graphs = true;
      parallel::cuda::stream compute{options};
      for (std::uint64_t i = 0; i < rounds; ++i)  // the second round captures
        parallel::as_graph(compute, {.part = 1}, [&] {
          parallel::ops::fill(compute, x.span(), i + 1 + static_cast<std::uint64_t>(comm.rank()));
          comm.all_reduce(compute, x.span(), parallel::reduction::sum).wait_on(compute);
          comm.all_gather(compute, gathered.span(), std::span<std::uint64_t const>(x.span()))
              .wait_on(compute);
        });
      compute.synchronize();
      std::vector<std::uint64_t> got(131 * n);
      device.download(std::span(got), std::span<std::uint64_t const>(gathered.span()));
      std::uint64_t const sum = n * rounds + n * (n - 1) / 2;
      parallel::require(std::ranges::count(got, sum) == std::ssize(got), "not the sum ", sum);
    }));
    CHECK(fake_cuda::history().graph_launches == (rounds - 1) * n);
    CHECK(fake_nccl::history().operations == (n > 1 ? 2 * rounds : 0));
    CHECK(fake_nccl::history().failures.empty());
    CHECK(fake_cuda::history().failures.empty());
    CHECK(fake_nccl::live_communicators() == 0);
  }
}

TEST_CASE("NCCL: a communicator's destructor waits for its operations while the watchdog does") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart();
  CHECK_NOTHROW(fake_nccl::ranks({.look_every = std::chrono::milliseconds(0)})(2, [](auto& comm) {
    auto const device = fake_cuda::current_gpu();
    auto const x = device.template allocate_zeroed<float>(8);
    auto const options = parallel::comm_options<parallel::nccl::communicator>(device);
    parallel::cuda::stream compute{options}, other{options};
    for (int round = 0; round < 5; ++round) {
      auto part = comm.split(0, "data");
      for (int i = 0; i < 12; ++i)
        part.all_reduce(compute, x.span(), parallel::reduction::sum).wait_on(other);
    }
  }));
  fake_nccl::check_ended();
}

}  // namespace fake_nccl_communicator_test
