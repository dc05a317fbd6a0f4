// What goes wrong over NCCL is one sentence on every rank; and what the fake NCCL does wrong, or is
// given wrong, is seen.
#include <doctest/doctest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "parallel/support/files.hpp"
#include "support/device_exchanges.hpp"

namespace fake_nccl_failures_test {

using parallel::reduction;
using parallel::conformance::message_of;
using test::contains;

void restart(int ranks, fake_nccl::options const& how = {}) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart(how);
}

struct numbers {
  parallel::cuda::device device = fake_cuda::current_gpu();
  parallel::buffer<float> x = device.allocate_zeroed<float>(8);
  parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
};

TEST_CASE("an abort reaches ranks that wait for the one that aborts, with its reason") {
  restart(3);
  std::vector<std::string> told(3);
  auto const thrown = message_of([&] {
    fake_nccl::ranks()(3, [&](auto& comm) {
      numbers n;
      auto part = comm.split(0, "tensor");
      int const me = comm.rank();
      told[static_cast<std::size_t>(me)] = message_of([&] {
        if (me == 2) return part.abort("the disk is full");
        part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
      });
      if (me == 2) told[2] = message_of([&] { static_cast<void>(part.barrier(n.s)); });
    });
  });
  CHECK(thrown == "nothing was thrown");
  for (auto const& one : told) CHECK(one == "rank 2 failed: the disk is full");
  CHECK(fake_nccl::happened().aborted == 6);           // the world and the part, of three
  CHECK(fake_nccl::happened().groups_of_aborts == 3);  // each rank's as one group
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("a rank that does not come is a deadline that names call, group and place") {
  restart(2);
  auto const told = message_of([] {
    fake_nccl::ranks({.deadline = std::chrono::milliseconds(200)})(2, [](auto& comm) {
      numbers n;
      auto part = comm.split(0, "shard");
      part.barrier(n.s).wait();
      if (part.rank() == 0) part.all_reduce(n.s, n.x.span(), reduction::max).wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 1 ? 600 : 0));
    });
  });
  CHECK(contains(told,
                 "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce(max) of 8 f32 "
                 "over shard at failures_test.cpp:"));
}

TEST_CASE("a rank that never joins is an error too") {
  restart(2);
  auto const id = parallel::nccl::make_unique_id();
  auto const told = message_of([&] {
    parallel::nccl::communicator alone(id, 0, 2, {.deadline = std::chrono::milliseconds(50)});
  });
  CHECK(contains(told, "ncclCommInitRankConfig at "));
  CHECK(contains(told, "other ranks have not come within 0.05 s"));
}

TEST_CASE("two ranks on one GPU are refused in NCCL's words") {
  restart(1);
  auto const told = message_of([] {
    fake_nccl::ranks()(1, [](auto&) {
      auto const id = parallel::nccl::make_unique_id();
      parallel::nccl::communicator_options const soon{.deadline = std::chrono::milliseconds(100)};
      std::jthread other([&] {
        static_cast<void>(message_of([&] { parallel::nccl::communicator(id, 0, 2, soon); }));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      parallel::nccl::communicator(id, 1, 2, soon);
    });
  });
  CHECK(contains(told, "Duplicate GPU detected"));
}

TEST_CASE("an asynchronous error of NCCL ends every rank with its words") {
  restart(2, {.fault = fake_nccl::fault::asynchronous_error});
  auto const told = message_of([] {
    fake_nccl::ranks()(2, [](auto& comm) {
      numbers n;
      for (int i = 0; i < 50; ++i) {
        comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  });
  CHECK(contains(told, "a link went down"));
}

TEST_CASE("what a request keeps is let go when it has been waited for") {
  restart(2);
  CHECK_NOTHROW(fake_nccl::ranks()(2, [](auto& comm) {
    numbers n;
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const kept = owner;
    auto request = comm.all_reduce(n.s, n.x.span(), reduction::sum).keep(std::move(owner));
    parallel::require(!kept.expired(), "it was not kept");
    request.wait();
    parallel::require(kept.expired(), "it was kept for too long");
  }));
}

TEST_CASE("a message without a channel is refused") {
  restart(2);
  auto const told = message_of([] {
    fake_nccl::ranks()(2, [](auto& comm) {
      numbers n;
      comm.send(n.s, n.x.span(), 1 - comm.rank()).wait();
    });
  });
  CHECK(contains(told, "call connect_neighbours before the first message"));
}

TEST_CASE("a split that a rank does not come to is ended, on a rank that would be alone too") {
  restart(3);
  std::vector<std::string> told(3);
  CHECK_NOTHROW(fake_nccl::ranks()(3, [&](auto& comm) {
    int const me = comm.rank();
    told[static_cast<std::size_t>(me)] = message_of([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(me == 1 ? 100 : 0));
      if (me == 1) return comm.abort("the disk is full");
      static_cast<void>(comm.split(parallel::coloring([](int rank) { return rank / 2; })));
    });
  }));
  CHECK(told == std::vector<std::string>{"rank 1 failed: the disk is full", "nothing was thrown",
                                         "rank 1 failed: the disk is full"});
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

/// What is said of ranks that do `wrong`.
template <class Wrong>
std::string seen(int ranks, Wrong const& wrong, fake_nccl::options how = {}) {
  how.patience = std::chrono::seconds(1);
  restart(ranks, how);
  auto const thrown = message_of([&] { fake_nccl::ranks()(ranks, wrong); });
  auto const failures = fake_nccl::happened().failures;
  return failures.empty() ? thrown : failures.front();
}

TEST_CASE("ranks that disagree are found") {
  auto const differing = [](auto const& call) {
    return seen(2, [&](auto& comm) {
      numbers n;
      call(comm, n);
    });
  };
  CHECK(contains(differing([](auto& comm, numbers& n) {
                   auto const count = static_cast<std::size_t>(8 - comm.rank());
                   comm.all_reduce(n.s, n.x.span().first(count), reduction::sum).wait();
                 }),
                 "disagree: ncclAllReduce of"));
  CHECK(contains(differing([](auto& comm, numbers& n) {
                   comm.broadcast(n.s, n.x.span(), comm.rank()).wait();
                 }),
                 "disagree: ncclBroadcast of 8"));
  CHECK(contains(differing([](auto& comm, numbers& n) {
                   if (comm.rank() == 0)
                     comm.broadcast(n.s, n.x.span(), 0).wait();
                   else
                     comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
                 }),
                 "disagree: nccl"));
  CHECK(contains(differing([](auto& comm, numbers& n) {
                   auto const bytes = std::as_writable_bytes(n.x.span());
                   if (comm.rank() == 0)
                     comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
                   else
                     comm.all_reduce(n.s, std::span(reinterpret_cast<int*>(bytes.data()), 8),
                                     reduction::sum)
                         .wait();
                 }),
                 "disagree: ncclAllReduce of 8 elements of type "));
}

TEST_CASE("a message whose count or type is another on the other rank is found") {
  auto const sent_and_taken = [](std::size_t taken, auto element) {
    return seen(2, [&](auto& comm) {
      numbers n;
      comm.connect_neighbours();
      auto const bytes = std::as_writable_bytes(n.x.span());
      if (comm.rank() == 0)
        comm.send(n.s, n.x.span(), 1).wait();
      else
        comm.recv(n.s, std::span(reinterpret_cast<decltype(element)*>(bytes.data()), taken), 0)
            .wait();
    });
  };
  for (auto const& told : {sent_and_taken(7, 0.0F), sent_and_taken(8, 0)}) {
    CAPTURE(told);
    CHECK(contains(told, "sender and receiver of communicator "));
    CHECK(contains(told, " disagree: ncclSend of 8 elements of type 7, "));
    CHECK(contains(told, " and ncclRecv of "));
  }
  CHECK(sent_and_taken(8, 0.0F) == "nothing was thrown");
}

// The classes refuse them before NCCL sees them: so operations are submitted as they are.
TEST_CASE("output that overlaps input, but is not in place, is found") {
  using enum parallel::operation_kind;
  auto const failures = [](parallel::operation_kind what, std::size_t in, std::size_t out) {
    auto const told = seen(2, [&](auto& comm) {
      numbers n;
      auto const own = static_cast<std::size_t>(comm.rank()) * 2;
      bool const gathers = what == all_gather, scatters = what == reduce_scatter;
      comm.submit(n.s, {.kind = what,
                        .type = parallel::dtype::f32,
                        .count = 2,
                        .in = n.x.data() + in + (gathers ? own : 0),
                        .out = n.x.data() + out + (scatters ? own : 0)})
          .wait();
    });
    auto const of_gpu = fake_cuda::happened().failures;
    return of_gpu.empty() ? told : of_gpu.front();
  };
  for (auto const what : {all_reduce, reduce_scatter, all_gather}) {
    CAPTURE(static_cast<int>(what));
    CHECK(contains(failures(what, 0, 1), ": input and output overlap, but are not in place"));
    CHECK(contains(failures(what, 1, 0), ": input and output overlap, but are not in place"));
    CHECK(failures(what, 1, 1) == "nothing was thrown");
    CHECK(failures(what, 0, 4) == "nothing was thrown");
  }
}

TEST_CASE("a communicator that is used after its abort is found") {
  restart(1);
  numbers n;
  auto const id = parallel::nccl::make_unique_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, part = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  for (auto state = ncclInProgress; state == ncclInProgress;)
    REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  auto const grouped = [](auto const& call) {
    static_cast<void>(ncclGroupStart());
    auto const inside = call();
    auto const end = ncclGroupEnd();
    return inside == ncclSuccess ? end : inside;
  };
  auto const abort = [&] { return ncclCommAbort(comm); };
  REQUIRE(grouped(abort) == ncclSuccess);
  CHECK(fake_nccl::happened().failures.empty());
  float* const x = n.x.data();
  CHECK(grouped([&] { return ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, n.s.get()); }) ==
        ncclInvalidUsage);
  CHECK(ncclGetLastError(comm) == std::string("ncclAllReduce: the communicator was aborted"));
  CHECK(ncclCommSplit(comm, 0, 0, &part, &config) == ncclInvalidUsage);
  CHECK(ncclCommDestroy(comm) == ncclInvalidUsage);
  CHECK(grouped(abort) == ncclInvalidUsage);
  CHECK(fake_nccl::happened().failures ==
        std::vector<std::string>{"ncclAllReduce: the communicator was aborted",
                                 "ncclCommSplit: the communicator was aborted",
                                 "ncclCommDestroy: the communicator was aborted",
                                 "ncclCommAbort: the communicator was aborted"});
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("communicators in another order on another rank stand still where slots are few") {
  auto const crossed = [](auto& comm) {
    numbers n;
    auto a = comm.split(0, "a"), b = comm.split(0, "b");
    parallel::cuda::stream other{parallel::comm_options<decltype(a)>(n.device)};
    auto const y = n.device.template allocate_zeroed<float>(8);
    for (auto* const part : {&a, &b}) part->barrier(n.s).wait();  // they are connected
    bool const first = comm.rank() == 0;
    auto one = (first ? a : b).all_reduce(n.s, n.x.span(), reduction::sum);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto two = (first ? b : a).all_reduce(other, y.span(), reduction::sum);
    one.wait();
    two.wait();
  };
  CHECK(contains(seen(2, crossed, {.slots = 1}), "ranks stand still"));
  CHECK(seen(2, crossed, {.slots = 2}) == "nothing was thrown");
}

TEST_CASE("memory that is gone when its message is taken is said, and the library goes on") {
  std::atomic<bool> gone = false;
  CHECK(contains(seen(2,
                      [&](auto& comm) {
                        numbers n;
                        comm.connect_neighbours();
                        auto sent = n.device.template allocate_zeroed<float>(8);
                        if (comm.rank() == 0) {
                          auto request = comm.send(n.s, sent.span(), 1);
                          std::this_thread::sleep_for(std::chrono::milliseconds(50));
                          fake_cuda::unmap(sent.span().data());
                          gone = true;
                          request.wait();
                        } else {
                          while (!gone) std::this_thread::yield();
                          comm.recv(n.s, n.x.span(), 0).wait();
                        }
                      }),
                 "it touched"));
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("every exchange sees what the library does wrong") {
  auto const exchanges = [](auto& comm) {
    test::check_device_exchanges<std::uint64_t>(comm, fake_cuda::current_gpu(), 131);
  };
  using enum fake_nccl::fault;
  CHECK(seen(3, exchanges) == "nothing was thrown");
  CHECK(contains(seen(3, exchanges, {.fault = wrong_count}), " is wrong"));
  CHECK(contains(seen(3, exchanges, {.fault = wrong_root}), "broadcast of 131 u64"));
  CHECK(contains(seen(3, exchanges, {.fault = dropped_group}), "ranks stand still"));
  CHECK(contains(seen(3, exchanges, {.fault = crossed_streams}), "wrong"));
}

}  // namespace fake_nccl_failures_test
