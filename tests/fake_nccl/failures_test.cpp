// A failure over NCCL is one sentence on every rank; and tests notice faults of the fake NCCL,
// which itself notices misuse.
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
#include "support/devices/device_exchanges.hpp"

namespace fake_nccl_failures_test {

using fake_nccl::rank_gpu;
using parallel::reduction;
using parallel::conformance::message_of;
using test::contains;

void restart(int ranks, fake_nccl::options const& library = {}) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart(library);
}

TEST_CASE("NCCL failures: an abort reaches ranks that wait for the aborting one, with its reason") {
  restart(3);
  std::vector<std::string> messages(3);
  auto const thrown = message_of([&] {
    fake_nccl::ranks()(3, [&](auto& comm) {
      rank_gpu gpu;
      auto part = comm.split(0, "tensor");
      int const own_rank = comm.rank();
      messages[static_cast<std::size_t>(own_rank)] = message_of([&] {
        if (own_rank == 2) return part.abort("the disk is full");
        part.all_reduce(gpu.s, gpu.x.span(), reduction::sum).wait();
      });
      if (own_rank == 2) messages[2] = message_of([&] { static_cast<void>(part.barrier(gpu.s)); });
    });
  });
  CHECK(thrown == "nothing was thrown");
  for (auto const& one : messages) CHECK(one == "rank 2 failed: the disk is full");
  CHECK(fake_nccl::history().aborted == 6);           // two communicators on each of three ranks
  CHECK(fake_nccl::history().groups_of_aborts == 3);  // one group for each rank
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("NCCL failures: the deadline for an absent rank names call, group and call site") {
  restart(2);
  auto const message = message_of([] {
    fake_nccl::ranks({.deadline = std::chrono::milliseconds(200)})(2, [](auto& comm) {
      rank_gpu gpu;
      auto part = comm.split(0, "shard");
      part.barrier(gpu.s).wait();
      if (part.rank() == 0) part.all_reduce(gpu.s, gpu.x.span(), reduction::max).wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 1 ? 600 : 0));
    });
  });
  CHECK(contains(message,
                 "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce(max) of 8 f32 "
                 "over shard at failures_test.cpp:"));
}

TEST_CASE("NCCL failures: a rank that never joins is an error after the deadline") {
  restart(2);
  auto const id = parallel::nccl::make_unique_id();
  auto const message = message_of([&] {
    parallel::nccl::communicator alone(id, 0, 2, {.deadline = std::chrono::milliseconds(50)});
  });
  CHECK(contains(message, "ncclCommInitRankConfig at "));
  CHECK(contains(message, "other ranks have not come within 0.05 s"));
}

TEST_CASE("NCCL failures: two ranks on one GPU are refused with NCCL's message") {
  restart(1);
  auto const message = message_of([] {
    fake_nccl::ranks()(1, [](auto&) {
      auto const id = parallel::nccl::make_unique_id();
      parallel::nccl::communicator_options const short_deadline{.deadline =
                                                                    std::chrono::milliseconds(100)};
      std::jthread other([&] {
        static_cast<void>(
            message_of([&] { parallel::nccl::communicator(id, 0, 2, short_deadline); }));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      parallel::nccl::communicator(id, 1, 2, short_deadline);
    });
  });
  CHECK(contains(message, "Duplicate GPU detected"));
}

TEST_CASE("NCCL failures: an asynchronous error ends every rank with NCCL's message") {
  restart(2, {.fault = fake_nccl::fault::asynchronous_error});
  auto const message = message_of([] {
    fake_nccl::ranks()(2, [](auto& comm) {
      rank_gpu gpu;
      for (int i = 0; i < 50; ++i) {
        comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum).wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  });
  CHECK(contains(message, "a link went down"));
}

TEST_CASE("NCCL request: wait() releases what keep() holds") {
  restart(2);
  CHECK_NOTHROW(fake_nccl::ranks()(2, [](auto& comm) {
    rank_gpu gpu;
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const watched = owner;
    auto request = comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum).keep(std::move(owner));
    parallel::require(!watched.expired(), "keep() did not hold the owner");
    request.wait();
    parallel::require(watched.expired(), "wait() did not release the owner");
  }));
}

TEST_CASE("NCCL failures: a message before connect_neighbours is refused") {
  restart(2);
  auto const message = message_of([] {
    fake_nccl::ranks()(2, [](auto& comm) {
      rank_gpu gpu;
      comm.send(gpu.s, gpu.x.span(), 1 - comm.rank()).wait();
    });
  });
  CHECK(contains(message, "call connect_neighbours before the first message"));
}

TEST_CASE("NCCL failures: an abort ends a pending split, also for a rank with its own color") {
  restart(3);
  std::vector<std::string> messages(3);
  CHECK_NOTHROW(fake_nccl::ranks()(3, [&](auto& comm) {
    int const own_rank = comm.rank();
    messages[static_cast<std::size_t>(own_rank)] = message_of([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(own_rank == 1 ? 100 : 0));
      if (own_rank == 1) return comm.abort("the disk is full");
      static_cast<void>(comm.split(parallel::coloring([](int rank) { return rank / 2; })));
    });
  }));
  CHECK(messages == std::vector<std::string>{"rank 1 failed: the disk is full",
                                             "nothing was thrown",
                                             "rank 1 failed: the disk is full"});
  fake_nccl::check_ended();
}

/// The first failure that the library records of ranks that run `program`, or the message of
/// what the program throws.
template <class Program>
std::string first_failure(int ranks, Program const& program, fake_nccl::options library = {}) {
  library.patience = std::chrono::seconds(1);
  restart(ranks, library);
  auto const thrown = message_of([&] { fake_nccl::ranks()(ranks, program); });
  auto const failures = fake_nccl::history().failures;
  return failures.empty() ? thrown : failures.front();
}

TEST_CASE("fake NCCL: finds ranks that disagree in count, root, operation or type") {
  auto const differing = [](auto const& call) {
    return first_failure(2, [&](auto& comm) {
      rank_gpu gpu;
      call(comm, gpu);
    });
  };
  CHECK(contains(differing([](auto& comm, rank_gpu& gpu) {
                   auto const count = static_cast<std::size_t>(8 - comm.rank());
                   comm.all_reduce(gpu.s, gpu.x.span().first(count), reduction::sum).wait();
                 }),
                 "disagree: ncclAllReduce of"));
  CHECK(contains(differing([](auto& comm, rank_gpu& gpu) {
                   comm.broadcast(gpu.s, gpu.x.span(), comm.rank()).wait();
                 }),
                 "disagree: ncclBroadcast of 8"));
  CHECK(contains(differing([](auto& comm, rank_gpu& gpu) {
                   if (comm.rank() == 0)
                     comm.broadcast(gpu.s, gpu.x.span(), 0).wait();
                   else
                     comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum).wait();
                 }),
                 "disagree: nccl"));
  CHECK(contains(differing([](auto& comm, rank_gpu& gpu) {
                   auto const bytes = std::as_writable_bytes(gpu.x.span());
                   if (comm.rank() == 0)
                     comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum).wait();
                   else
                     comm.all_reduce(gpu.s, std::span(reinterpret_cast<int*>(bytes.data()), 8),
                                     reduction::sum)
                         .wait();
                 }),
                 "disagree: ncclAllReduce of 8 elements of type "));
}

TEST_CASE("fake NCCL: finds messages whose sender and receiver disagree") {
  auto const mismatch_failure = [](std::size_t received_count, auto element) {
    return first_failure(2, [&](auto& comm) {
      rank_gpu gpu;
      comm.connect_neighbours();
      auto const bytes = std::as_writable_bytes(gpu.x.span());
      if (comm.rank() == 0)
        comm.send(gpu.s, gpu.x.span(), 1).wait();
      else
        comm.recv(gpu.s,
                  std::span(reinterpret_cast<decltype(element)*>(bytes.data()), received_count), 0)
            .wait();
    });
  };
  for (auto const& message : {mismatch_failure(7, 0.0F), mismatch_failure(8, 0)}) {
    CAPTURE(message);
    CHECK(contains(message, "sender and receiver of communicator "));
    CHECK(contains(message, " disagree: ncclSend of 8 elements of type 7, "));
    CHECK(contains(message, " and ncclRecv of "));
  }
  CHECK(mismatch_failure(8, 0.0F) == "nothing was thrown");
}

// The communicators refuse such calls before NCCL sees them, so the test submits raw operations.
TEST_CASE("fake NCCL: finds output that overlaps input without being in place") {
  using enum parallel::operation_kind;
  auto const failures = [](parallel::operation_kind kind, std::size_t in, std::size_t out) {
    auto const message = first_failure(2, [&](auto& comm) {
      rank_gpu gpu;
      auto const own_offset = static_cast<std::size_t>(comm.rank()) * 2;
      bool const gathers = kind == all_gather, scatters = kind == reduce_scatter;
      comm.submit(gpu.s, {.kind = kind,
                          .type = parallel::dtype::f32,
                          .count = 2,
                          .in = gpu.x.data() + in + (gathers ? own_offset : 0),
                          .out = gpu.x.data() + out + (scatters ? own_offset : 0)})
          .wait();
    });
    auto const gpu_failures = fake_cuda::history().failures;
    return gpu_failures.empty() ? message : gpu_failures.front();
  };
  for (auto const kind : {all_reduce, reduce_scatter, all_gather}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(contains(failures(kind, 0, 1), ": input and output overlap, but are not in place"));
    CHECK(contains(failures(kind, 1, 0), ": input and output overlap, but are not in place"));
    CHECK(failures(kind, 1, 1) == "nothing was thrown");
    CHECK(failures(kind, 0, 4) == "nothing was thrown");
  }
}

TEST_CASE("fake NCCL: finds the use of a communicator after its abort") {
  restart(1);
  rank_gpu gpu;
  auto const id = parallel::nccl::make_unique_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, part = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  for (auto state = ncclInProgress; state == ncclInProgress;)
    REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  auto const grouped = [](auto const& call) {
    static_cast<void>(ncclGroupStart());
    auto const call_result = call();
    auto const end = ncclGroupEnd();
    return call_result == ncclSuccess ? end : call_result;
  };
  auto const abort = [&] { return ncclCommAbort(comm); };
  REQUIRE(grouped(abort) == ncclSuccess);
  CHECK(fake_nccl::history().failures.empty());
  float* const x = gpu.x.data();
  CHECK(grouped([&] { return ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, gpu.s.get()); }) ==
        ncclInvalidUsage);
  CHECK(ncclGetLastError(comm) == std::string("ncclAllReduce: the communicator was aborted"));
  CHECK(ncclCommSplit(comm, 0, 0, &part, &config) == ncclInvalidUsage);
  CHECK(ncclCommDestroy(comm) == ncclInvalidUsage);
  CHECK(grouped(abort) == ncclInvalidUsage);
  CHECK(fake_nccl::history().failures ==
        std::vector<std::string>{"ncclAllReduce: the communicator was aborted",
                                 "ncclCommSplit: the communicator was aborted",
                                 "ncclCommDestroy: the communicator was aborted",
                                 "ncclCommAbort: the communicator was aborted"});
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE(
    "fake NCCL: two communicators that ranks use in different orders deadlock with one slot") {
  auto const crossed = [](auto& comm) {
    rank_gpu gpu;
    auto a = comm.split(0, "a"), b = comm.split(0, "b");
    parallel::cuda::stream other{parallel::comm_options<decltype(a)>(gpu.device)};
    auto const y = gpu.device.template allocate_zeroed<float>(8);
    for (auto* const part : {&a, &b}) part->barrier(gpu.s).wait();  // connects the ranks
    bool const first = comm.rank() == 0;
    auto one = (first ? a : b).all_reduce(gpu.s, gpu.x.span(), reduction::sum);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto two = (first ? b : a).all_reduce(other, y.span(), reduction::sum);
    one.wait();
    two.wait();
  };
  CHECK(contains(first_failure(2, crossed, {.slots = 1}), "ranks are stalled"));
  CHECK(first_failure(2, crossed, {.slots = 2}) == "nothing was thrown");
}

TEST_CASE("fake NCCL: reports memory that was freed before its message was received") {
  std::atomic<bool> is_freed = false;
  CHECK(contains(first_failure(2,
                               [&](auto& comm) {
                                 rank_gpu gpu;
                                 comm.connect_neighbours();
                                 auto sent = gpu.device.template allocate_zeroed<float>(8);
                                 if (comm.rank() == 0) {
                                   auto request = comm.send(gpu.s, sent.span(), 1);
                                   std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                   fake_cuda::unmap(sent.span().data());
                                   is_freed = true;
                                   request.wait();
                                 } else {
                                   while (!is_freed) std::this_thread::yield();
                                   comm.recv(gpu.s, gpu.x.span(), 0).wait();
                                 }
                               }),
                 "it touched"));
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("fake NCCL faults: the tests of exchanges notice every fault") {
  auto const exchanges = [](auto& comm) {
    test::check_device_exchanges<std::uint64_t>(comm, fake_cuda::current_gpu(), 131);
  };
  using enum fake_nccl::fault;
  CHECK(first_failure(3, exchanges) == "nothing was thrown");
  CHECK(contains(first_failure(3, exchanges, {.fault = wrong_count}), " is wrong"));
  CHECK(contains(first_failure(3, exchanges, {.fault = wrong_root}), "broadcast of 131 u64"));
  CHECK(contains(first_failure(3, exchanges, {.fault = dropped_group}), "ranks are stalled"));
  CHECK(contains(first_failure(3, exchanges, {.fault = crossed_streams}), "wrong"));
}

}  // namespace fake_nccl_failures_test
