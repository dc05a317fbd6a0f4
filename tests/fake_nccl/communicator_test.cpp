// nccl::communicator on fake GPUs and the fake NCCL: every exchange to the bit, at whatever pace
// streams run.
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
#include "support/device_exchanges.hpp"

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
  auto const failures = fake_nccl::happened().failures;
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures.front()));
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("NCCL: every exchange is that of a serial loop, floats are summed in any order") {
  for (int const ranks : {1, 2, 3, 4}) check(ranks, static_cast<std::uint64_t>(ranks));
}

TEST_CASE("ranks that compare what they begin allocate nothing") {
  fake_cuda::restart({.devices = 3, .peers = false});
  fake_nccl::restart();
  std::barrier<> all(3);
  CHECK_NOTHROW(fake_nccl::ranks()(3, [&](auto& comm) {
    auto part = comm.split(0, "data");
    auto const compare = [&](auto& over) {
      for (int round = 0; round < 3; ++round) {
        auto const said = over.open_exchange()({.peer = over.rank()});
        for (int rank = 0; rank < over.size(); ++rank)
          parallel::require(said[static_cast<std::size_t>(rank)].peer == rank, "wrong");
      }
    };
    all.arrive_and_wait();
    auto const before = fake_cuda::happened();
    all.arrive_and_wait();
    compare(comm);
    compare(part);
    all.arrive_and_wait();
    auto const after = fake_cuda::happened();
    parallel::require(after.allocations == before.allocations, "memory was allocated");
    parallel::require(after.streams == before.streams, "streams were made");
  }));
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("a captured exchange runs with its graph, behind what was captured before it") {
  constexpr std::uint64_t rounds = 4;
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    auto const n = static_cast<std::uint64_t>(ranks);
    fake_cuda::restart({.devices = ranks, .peers = false, .seed = n});
    fake_nccl::restart();
    CHECK_NOTHROW(fake_nccl::ranks()(ranks, [&](auto& comm) {
      auto const device = fake_cuda::current_gpu();
      auto const x = device.template allocate_zeroed<std::uint64_t>(131);
      auto const all = device.template allocate_zeroed<std::uint64_t>(131 * n);
      auto options = parallel::comm_options<parallel::nccl::communicator>(device);
      options.graphs = true;
      parallel::cuda::stream on{options};
      for (std::uint64_t i = 0; i < rounds; ++i)  // captured from the second on
        parallel::as_graph(on, {.part = 1}, [&] {
          parallel::ops::fill(on, x.span(), i + 1 + static_cast<std::uint64_t>(comm.rank()));
          comm.all_reduce(on, x.span(), parallel::reduction::sum).wait_on(on);
          comm.all_gather(on, all.span(), std::span<std::uint64_t const>(x.span())).wait_on(on);
        });
      on.synchronize();
      std::vector<std::uint64_t> got(131 * n);
      device.download(std::span(got), std::span<std::uint64_t const>(all.span()));
      std::uint64_t const sum = n * rounds + n * (n - 1) / 2;
      parallel::require(std::ranges::count(got, sum) == std::ssize(got), "not the sum ", sum);
    }));
    CHECK(fake_cuda::happened().graph_launches == (rounds - 1) * n);
    CHECK(fake_nccl::happened().operations == (n > 1 ? 2 * rounds : 0));
    CHECK(fake_nccl::happened().failures.empty());
    CHECK(fake_cuda::happened().failures.empty());
    CHECK(fake_nccl::alive() == 0);
  }
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
