// nccl::connect for ranks that are threads, on fake GPUs: a failure of the control communicator or
// of NCCL's communicator ends both.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"
#include "support/devices/device_exchanges.hpp"

namespace fake_nccl_connect_test {

using parallel::any_communicator;
using parallel::reduction;
using parallel::conformance::message_of;

using rank_program = std::function<void(any_communicator& control, parallel::cuda::device&,
                                        parallel::nccl::communicator&)>;

/// The message of each rank's exception. A rank that fails aborts `control`, as programs do.
std::vector<std::string> messages_of(int ranks, rank_program const& program,
                                     parallel::nccl::communicator_options const& options = {
                                         .deadline = std::chrono::seconds(20)}) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart();
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    any_communicator control(parallel::checked(std::move(comm)));
    auto& message = out[static_cast<std::size_t>(control.rank())];
    message = message_of([&] {
      parallel::cuda::device device({.device = control.rank()});
      auto connected = parallel::nccl::connect(control, device, options);
      parallel::require(connected.has_value(), "ranks with a GPU each are not connected");
      try {
        program(control, device, *connected);
      } catch (std::exception const& problem) {
        control.abort(problem.what());
        throw;
      }
    });
  });
  CHECK(fake_nccl::live_communicators() == 0);
  return out;
}

struct numbers {
  explicit numbers(parallel::cuda::device& device)
      : x(device.allocate_zeroed<float>(8)),
        s(parallel::comm_options<parallel::nccl::communicator>(device)) {}
  parallel::buffer<float> x;
  parallel::cuda::stream s;
};

TEST_CASE("nccl::connect: ranks keep their numbers and can exchange") {
  auto const messages = messages_of(3, [](auto& control, auto& device, auto& comm) {
    parallel::require(comm.rank() == control.rank() && comm.size() == 3, "other ranks");
    test::check_device_exchanges<float>(comm, device, 131, test::sum_order::unspecified);
  });
  for (auto const& one : messages) CHECK(one == "nothing was thrown");
  CHECK(fake_nccl::history().failures.empty());
}

TEST_CASE("nccl::connect: if two ranks share a GPU no rank is connected, and NCCL is not called") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart();
  parallel::threads::run(3, [](parallel::threads::communicator& comm) {
    any_communicator control(std::move(comm));
    parallel::cuda::device device({.device = control.rank() % 2});
    CHECK(!parallel::nccl::connect(control, device));
  });
  CHECK(fake_nccl::history().names.empty());
}

TEST_CASE("nccl::connect: a failure outside NCCL ends waits in NCCL, with the reason") {
  auto const messages = messages_of(3, [](auto& control, auto& device, auto& comm) {
    numbers n(device);
    auto part = comm.split(0, "tensor");
    parallel::require(control.rank() != 2, "the disk is full");
    part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
  });
  CHECK(messages[0] == "rank 2 failed: the disk is full");
  CHECK(messages[1] == "rank 2 failed: the disk is full");
  CHECK(messages[2] == "the disk is full");
}

TEST_CASE("nccl::connect: an abort of NCCL ends waits on the control communicator") {
  auto const messages = messages_of(3, [](auto& control, auto&, auto& comm) {
    parallel::host::stream s;
    auto part = comm.split(0, "tensor");
    if (control.rank() == 2)
      part.abort("the loss is not a number");
    else
      control.barrier(s).wait();
  });
  CHECK(messages[0] == "rank 2 failed: the loss is not a number");
  CHECK(messages[1] == "rank 2 failed: the loss is not a number");
}

TEST_CASE("nccl::connect: a call uses the shared deadline's value at the time of the call") {
  parallel::shared_deadline const deadline = std::chrono::minutes(5);
  std::vector<int> has_timed_out(2);
  auto const messages =
      messages_of(2,
                  [&](auto& control, auto& device, auto& comm) {
                    numbers n(device);
                    comm.barrier(n.s).wait();
                    parallel::host::stream host_stream;
                    control.barrier(host_stream).wait();  // all ranks have left the call before
                    deadline.set(std::chrono::milliseconds(300));
                    if (control.rank() == 1) {  // misses the call
                      while (!comm.abort_reason())
                        std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      comm.barrier(n.s).wait();
                    }
                    try {
                      comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
                    } catch (parallel::timed_out const&) {
                      has_timed_out[static_cast<std::size_t>(control.rank())] = 1;
                      throw;
                    }
                  },
                  {.deadline = deadline});
  std::string const expected =
      "rank 0 failed: rank 0 has waited 0.3 s for call 1, all_reduce(sum) of 8 f32 at "
      "connect_test.cpp:";
  CHECK(messages[0].starts_with(expected));
  CHECK(messages[1].starts_with(expected));
  CHECK(has_timed_out == std::vector{1, 0});  // only the rank that waited has timed out
}

}  // namespace fake_nccl_connect_test
