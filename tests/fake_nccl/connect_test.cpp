// Ranks that threads connect are given a communicator of NCCL's, on fake GPUs, which fails with the
// other and makes it fail.
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
#include "support/device_exchanges.hpp"

namespace fake_nccl_connect_test {

using parallel::any_communicator;
using parallel::reduction;
using parallel::conformance::message_of;

using rank_program = std::function<void(any_communicator& control, parallel::cuda::device&,
                                        parallel::nccl::communicator&)>;

/// What each rank is told. Whoever fails aborts `control`, as programs do.
std::vector<std::string> told(int ranks, rank_program const& program,
                              parallel::nccl::communicator_options const& how = {
                                  .deadline = std::chrono::seconds(20)}) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart();
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    any_communicator control(parallel::checked(std::move(comm)));
    auto& here = out[static_cast<std::size_t>(control.rank())];
    here = message_of([&] {
      parallel::cuda::device device({.device = control.rank()});
      auto made = parallel::nccl::connect(control, device, how);
      parallel::require(made.has_value(), "ranks with a GPU each are not connected");
      try {
        program(control, device, *made);
      } catch (std::exception const& problem) {
        control.abort(problem.what());
        throw;
      }
    });
  });
  CHECK(fake_nccl::alive() == 0);
  return out;
}

struct numbers {
  explicit numbers(parallel::cuda::device& device)
      : x(device.allocate_zeroed<float>(8)),
        s(parallel::comm_options<parallel::nccl::communicator>(device)) {}
  parallel::buffer<float> x;
  parallel::cuda::stream s;
};

TEST_CASE("ranks keep their numbers, and exchange") {
  auto const all = told(3, [](auto& control, auto& device, auto& comm) {
    parallel::require(comm.rank() == control.rank() && comm.size() == 3, "other ranks");
    test::check_device_exchanges<float>(comm, device, 131, test::sum_order::unspecified);
  });
  for (auto const& one : all) CHECK(one == "nothing was thrown");
  CHECK(fake_nccl::happened().failures.empty());
}

TEST_CASE("ranks that share a GPU are not connected, on no rank, and NCCL is not called") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart();
  parallel::threads::run(3, [](parallel::threads::communicator& comm) {
    any_communicator control(std::move(comm));
    parallel::cuda::device device({.device = control.rank() % 2});
    CHECK(!parallel::nccl::connect(control, device));
  });
  CHECK(fake_nccl::happened().names.empty());
}

TEST_CASE("a rank that fails beside NCCL ends what others wait for there, with the reason") {
  auto const all = told(3, [](auto& control, auto& device, auto& comm) {
    numbers n(device);
    auto part = comm.split(0, "tensor");
    parallel::require(control.rank() != 2, "the disk is full");
    part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
  });
  CHECK(all[0] == "rank 2 failed: the disk is full");
  CHECK(all[1] == "rank 2 failed: the disk is full");
  CHECK(all[2] == "the disk is full");
}

TEST_CASE("a rank that aborts NCCL ends what others wait for beside it, with the reason") {
  auto const all = told(3, [](auto& control, auto&, auto& comm) {
    parallel::host::stream s;
    auto part = comm.split(0, "tensor");
    if (control.rank() == 2)
      part.abort("the loss is not a number");
    else
      control.barrier(s).wait();
  });
  CHECK(all[0] == "rank 2 failed: the loss is not a number");
  CHECK(all[1] == "rank 2 failed: the loss is not a number");
}

TEST_CASE("the deadline is the one that all share, as it is when a call is made") {
  parallel::shared_deadline const deadline = std::chrono::minutes(5);
  std::vector<int> late(2);
  auto const all = told(2,
                        [&](auto& control, auto& device, auto& comm) {
                          numbers n(device);
                          comm.barrier(n.s).wait();
                          parallel::host::stream here;
                          control.barrier(here).wait();  // no rank is in the call before any more
                          deadline.set(std::chrono::milliseconds(300));
                          if (control.rank() == 1) {  // does not come
                            while (!comm.abort_reason())
                              std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            comm.barrier(n.s).wait();
                          }
                          try {
                            comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
                          } catch (parallel::timed_out const&) {
                            late[static_cast<std::size_t>(control.rank())] = 1;
                            throw;
                          }
                        },
                        {.deadline = deadline});
  std::string const expected =
      "rank 0 failed: rank 0 has waited 0.3 s for call 1, all_reduce(sum) of 8 f32 at "
      "connect_test.cpp:";
  CHECK(all[0].starts_with(expected));
  CHECK(all[1].starts_with(expected));
  CHECK(late == std::vector{1, 0});  // exit codes tell who waited from who was told
}

}  // namespace fake_nccl_connect_test
