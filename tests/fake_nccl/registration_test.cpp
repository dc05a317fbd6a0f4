// Memory that every step exchanges is registered with NCCL once, for as long as it is allocated.
#include <doctest/doctest.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/nccl/memory.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/device/buffer.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_cuda/trained_model.hpp"
#include "fake_nccl/ranks.hpp"
#include "parallel/support/files.hpp"

namespace fake_nccl_registration_test {

using fake_nccl::rank_gpu;
using parallel::reduction;
using parallel::conformance::message_of;
using parallel::nccl::communicator;
using test::contains;
using traffic = fake_nccl::record::traffic;

void restart(int ranks) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart({.patience = std::chrono::seconds(2)});
}

/// A launcher of ranks whose devices allocate exchanged memory of `least_bytes` or more from NCCL.
struct window_ranks {
  std::size_t least_bytes = 0;
  static parallel::memory_source& source() {
    static thread_local parallel::memory_source of_rank;
    return of_rank;
  }
  static parallel::cuda::device device() {
    auto out = fake_cuda::current_gpu();
    out.take_exchanged_from(source());
    return out;
  }
  void operator()(int number, auto const& program) const {
    fake_nccl::ranks({.least_window_bytes = least_bytes})(number, [&](communicator& comm) {
      source() = comm.exchanged_memory();
      program(comm);
    });
  }
};

/// The record of a run of two steps and an evaluation of a small model.
fake_nccl::record trained(test::model_layout layout, bool windows = false) {
  layout.steps = 2;
  restart(layout.context * layout.tensor * layout.replicate * layout.pipeline * layout.shard);
  auto const max_bytes = static_cast<std::size_t>(-1);
  static_cast<void>(test::run_model<float>(fake_cuda::small_model(true), layout,
                                           window_ranks::device,
                                           window_ranks{windows ? 0 : max_bytes}));
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_nccl::live_communicators() == 0);
  auto const got = fake_nccl::history();
  for (auto const& failure : got.failures) CHECK(failure == "");
  return got;
}

traffic traffic_of(fake_nccl::record const& record, char const* operation) {
  auto const found = record.exchanged.find(operation);
  return found == record.exchanged.end() ? traffic() : found->second;
}

TEST_CASE("registration: a step's exchanges are of registered memory, or all of it of windows") {
  using enum parallel::zero::level;
  for (auto const level : {none, optimizer, gradients, parameters})
    for (int const replicas : {1, 2})
      for (bool const windows : {false, true}) {
        int const shards = level == none ? 1 : 2;
        if (shards * replicas == 1) continue;
        CAPTURE(level);
        CAPTURE(replicas);
        CAPTURE(windows);
        auto const got = trained(
            {.replicate = replicas, .level = level, .shard = shards, .microbatch = 1}, windows);
        auto const scattered = traffic_of(got, "ncclReduceScatter of f32");
        auto const gathered = traffic_of(got, "ncclAllGather of f32");
        auto const summed = traffic_of(got, "ncclAllReduce of f32");
        CHECK((scattered.bytes > 10'000) == (level != none));
        CHECK(scattered.registered == scattered.bytes);
        CHECK((gathered.bytes > 10'000) == (level != none));
        CHECK(gathered.registered == gathered.bytes);
        CHECK((summed.registered > 10'000) == (replicas > 1));
        CHECK(summed.bytes - summed.registered < 500);  // a few numbers for agreements
        for (auto const& one : {scattered, gathered, summed})
          CHECK(one.in_windows == (windows ? one.registered : 0));
      }
}

TEST_CASE("windows: tensor, context and pipeline parallel layouts use them too") {
  using enum parallel::zero::level;
  for (auto const& layout : {test::model_layout{.tensor = 2, .level = parameters, .shard = 2},
                             test::model_layout{.context = 2, .level = optimizer, .shard = 2},
                             test::model_layout{.pipeline = 2, .level = gradients, .shard = 2}})
    CHECK(traffic_of(trained(layout, true), "ncclAllGather of f32").in_windows > 5'000);
}

TEST_CASE("registration: a buffer is registered with each communicator that exchanges it") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    rank_gpu n;
    auto part = comm.split(0, "shard");
    auto const with_whole = register_memory(comm, n.x), with_part = register_memory(part, n.x);
    for (auto* const one : {&comm, &part})
      one->all_reduce(n.s, n.x.span().first(4), reduction::sum).wait();
  });
  auto const got = fake_nccl::history();
  CHECK(got.registered == 4);
  CHECK(traffic_of(got, "ncclAllReduce of f32").bytes == std::size_t{2 * 2 * 2 * 16});
  CHECK(traffic_of(got, "ncclAllReduce of f32").registered == std::size_t{2 * 2 * 2 * 16});
  CHECK(got.failures.empty());
}

TEST_CASE("registration: any_communicator registers, a communicator of one rank does not") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    rank_gpu n;
    parallel::nccl::any_communicator any(comm);
    CHECK(register_memory(any, n.x) != nullptr);
    CHECK(register_memory(any, parallel::buffer<float>()) == nullptr);
    auto alone = any.split(any.rank(), "tensor");
    CHECK(register_memory(alone, n.x) == nullptr);
  });
  CHECK(fake_nccl::history().failures.empty());
}

TEST_CASE("registration: keeps the memory and its communicator alive until it ends") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    parallel::registered_memory registration;
    std::weak_ptr<void> memory;
    {
      rank_gpu n;
      auto part = comm.split(0, "shard");
      registration = register_memory(part, n.x);
      memory = n.x.owner();
      static_cast<void>(part.all_reduce(n.s, n.x.span(), reduction::sum));  // not waited for
    }
    CHECK(!memory.expired());
    registration.reset();
    CHECK(memory.expired());
  });
  fake_nccl::check_ended();
}

TEST_CASE("registration: a machine without windows registers NCCL's memory as ordinary memory") {
  for (bool const windows : {false, true}) {
    fake_cuda::restart({.devices = 2, .peers = false});
    fake_nccl::restart({.windows = windows, .patience = std::chrono::seconds(2)});
    window_ranks()(2, [](communicator& comm) {
      auto const device = window_ranks::device();
      auto const x = device.allocate_exchanged<float>(8, 8);
      auto const registration = register_memory(comm, x);
      parallel::cuda::stream s(parallel::comm_options<communicator>(device));
      comm.all_reduce(s, x.span(), reduction::sum).wait();
    });
    auto const got = fake_nccl::history();
    CHECK(got.failures.empty());
    CHECK(traffic_of(got, "ncclAllReduce of f32").registered == 128);
    CHECK(traffic_of(got, "ncclAllReduce of f32").in_windows == (windows ? 128 : 0));
    CHECK(got.names.contains("ncclCommRegister") == !windows);
  }
}

TEST_CASE(
    "exchanged memory: only large allocations come from NCCL, and the device counts them too") {
  restart(2);
  fake_nccl::ranks({.least_window_bytes = 400})(2, [](communicator& comm) {
    auto device = fake_cuda::current_gpu();
    auto const copy = device;
    device.take_exchanged_from(comm.exchanged_memory());
    auto const small = copy.allocate_exchanged<float>(99, 99);
    parallel::cuda::stream s(parallel::comm_options<communicator>(device));
    CHECK(fake_nccl::history().allocated == 0);
    comm.barrier(s).wait();
    auto const part = copy.allocate_exchanged<float>(10, 100);
    auto const none = copy.allocate_exchanged<float>(0, 100);
    float last = 1;
    device.download(std::span(&last, 1), std::span<float const>(part.span()).last(1));
    CHECK(last == 0);
    CHECK(device.bytes() == (99 + 10) * sizeof(float));
    comm.barrier(s).wait();
    CHECK(fake_nccl::history().allocated == 4);
  });
  CHECK(fake_nccl::history().failures.empty());
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("windows: a rank stops waiting for the window of a rank that has failed") {
  restart(2);
  std::string waited;
  CHECK(message_of([&] {
          window_ranks()(2, [&](communicator& comm) {
            auto const device = window_ranks::device();
            auto const x = device.allocate_exchanged<float>(8, 8);
            parallel::require(comm.rank() == 0, "the disk is full");
            waited = message_of([&] { static_cast<void>(register_memory(comm, x)); });
          });
        }) == "the disk is full");
  CHECK(waited == "rank 1 failed: the disk is full");
  fake_nccl::check_ended();
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("nccl::memory: contains_allocation is true until the allocation is freed") {
  restart(1);
  static_cast<void>(fake_cuda::current_gpu());
  auto const memory = std::make_shared<parallel::nccl::memory>();
  auto piece = memory->allocate(8);
  void const* const address = piece.get();
  CHECK(memory->contains_allocation(address));
  CHECK_FALSE(memory->contains_allocation(static_cast<std::byte const*>(address) + 1));
  piece.reset();
  CHECK_FALSE(memory->contains_allocation(address));
  fake_cuda::fail_next("cudaMalloc");
  CHECK(memory->allocate(8) == nullptr);
}

TEST_CASE("exchanged memory: outlives its communicator until enqueued work has run") {
  restart(2);
  window_ranks()(2, [](communicator& comm) {
    auto const device = window_ranks::device();
    auto x = device.allocate_exchanged<float>(8, 8);
    parallel::cuda::stream s(parallel::comm_options<communicator>(device));
    {
      auto part = comm.split(0, "shard");
      static_cast<void>(part.all_reduce(s, x.span(), reduction::sum));
    }
    CHECK(fake_cuda::enqueue(s.get(), "late", [device = comm.rank(), address = x.data()] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            fake_cuda::require_access(device, address, sizeof *address, "late work");
          }) == cudaSuccess);
    x = {};
  });
  CHECK(fake_nccl::history().failures.empty());
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("registration: a buffer stays registered until the operations enqueued on it have run") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    rank_gpu n;
    auto registration = register_memory(comm, n.x);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * comm.rank()));
    auto request = comm.all_reduce(n.s, n.x.span(), reduction::sum);
    registration.reset();
    request.wait();
  });
  CHECK(fake_nccl::history().failures.empty());
}

TEST_CASE("registration: an abort ends it, and the destructor then deregisters nothing") {
  restart(2);
  static_cast<void>(message_of([] {
    fake_nccl::ranks()(2, [](communicator& comm) {
      rank_gpu n;
      auto const registration = register_memory(comm, n.x);
      if (comm.rank() == 0) comm.abort("the disk is full");
      comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
    });
  }));
  auto const got = fake_nccl::history();
  CHECK(got.aborted == 2);
  CHECK(got.failures.empty());
  CHECK(!got.names.contains("ncclCommDeregister"));
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("registration: a refusal is an error with NCCL's message") {
  restart(2);
  auto const message = message_of([] {
    fake_nccl::ranks()(2, [](communicator& comm) {
      float host_array[8] = {};
      static_cast<void>(register_memory(comm, parallel::buffer<float>(nullptr, host_array, 8)));
    });
  });
  CHECK(
      message.find("ncclCommRegister failed: invalid argument; ncclCommRegister: the memory is not "
                   "of the communicator's device") != std::string::npos);
}

void settle(ncclComm_t comm) {
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
    ncclCommGetAsyncError(comm, &state);
}

/// The first failure that the library records when two ranks call misuse(communicator, its GPU).
std::string first_failure(std::function<void(ncclComm_t, rank_gpu&)> const& misuse) {
  restart(2);
  auto const id = parallel::nccl::make_unique_id();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        cudaSetDevice(rank);
        ncclComm_t comm = nullptr;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclCommInitRankConfig(&comm, 2, id, rank, &config);
        settle(comm);
        rank_gpu n;
        misuse(comm, n);
        settle(comm);
        n.s.synchronize();
        ncclCommFinalize(comm);
        settle(comm);
        if (ncclCommDestroy(comm) != ncclSuccess) {
          ncclGroupStart();
          ncclCommAbort(comm);
          ncclGroupEnd();
        }
      });
  }
  auto const failures = fake_nccl::history().failures;
  return failures.empty() ? "" : failures.front();
}

void* registered(ncclComm_t comm, void* memory, std::size_t bytes) {
  void* handle = nullptr;
  ncclCommRegister(comm, memory, bytes, &handle);
  return handle;
}

TEST_CASE("fake NCCL: records misuse of registrations") {
  CHECK(first_failure([](ncclComm_t comm, rank_gpu& n) {
          ncclCommDeregister(comm, registered(comm, n.x.data(), 32));
        }) == "");
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   float* const freed = n.x.data();
                   n.x = {};
                   registered(comm, freed, 32);
                 }),
                 "the memory is not of the communicator's device"));
  CHECK(contains(
      first_failure([](ncclComm_t comm, rank_gpu& n) { registered(comm, n.x.data(), 36); }),
      "ncclCommRegister: 36 bytes go beyond the end of memory of GPU"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu&) {
                   float host_array[8] = {};
                   registered(comm, host_array, sizeof host_array);
                 }),
                 "the memory is not of the communicator's device"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   ncclCommDeregister(comm, handle);
                   ncclCommDeregister(comm, handle);
                 }),
                 "nothing of the communicator is registered so"));
  CHECK(contains(
      first_failure([](ncclComm_t comm, rank_gpu& n) { registered(comm, n.x.data(), 32); }),
      "ncclCommDestroy: 1 pieces of memory are still registered"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   n.x = {};
                   ncclCommDeregister(comm, handle);
                 }),
                 "memory was freed while it was registered"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   int device = 0;
                   cudaGetDevice(&device);
                   void* const handle = device == 0 ? registered(comm, n.x.data(), 32) : nullptr;
                   ncclAllReduce(n.x.data(), n.x.data(), 8, ncclFloat32, ncclSum, comm, n.s.get());
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   if (handle != nullptr) ncclCommDeregister(comm, handle);
                 }),
                 "is of registered memory on some alone"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   ncclAllReduce(n.x.data(), n.x.data(), 8, ncclFloat32, ncclSum, comm, n.s.get());
                   ncclCommDeregister(comm, handle);
                 }),
                 "operations of the communicator are under way"));
}

struct window {
  ncclComm_t comm;
  ncclWindow_t handle = nullptr;
  window(ncclComm_t window_comm, void* memory, std::size_t bytes) : comm(window_comm) {
    ncclCommWindowRegister(comm, memory, bytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
    settle(comm);
  }
  void end() const { ncclCommWindowDeregister(comm, handle); }
};

float* allocate(std::size_t count) {
  void* memory = nullptr;
  ncclMemAlloc(&memory, count * sizeof(float));
  return static_cast<float*>(memory);
}

TEST_CASE("fake NCCL: records misuse of windows") {
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) { window(comm, n.x.data(), 32); }),
                 "the memory is not one piece that ncclMemAlloc gave"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu&) {
                   auto* const x = allocate(9);
                   window(comm, x + 1, 32);
                   ncclMemFree(x);
                 }),
                 "does not begin at a multiple of 4096 bytes"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu&) {
                   auto* const x = allocate(8);
                   window const one(comm, x, 32);
                   window(comm, x, 16);
                   one.end();
                   ncclMemFree(x);
                 }),
                 "the memory is in another window"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu&) {
                   int device = 0;
                   cudaGetDevice(&device);
                   auto* const x = allocate(8);
                   window(comm, x, device == 0 ? 32 : 16).end();
                   ncclMemFree(x);
                 }),
                 "disagree: window 1 has"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   int device = 0;
                   cudaGetDevice(&device);
                   auto* const x = allocate(8);
                   window const one(comm, x, 32);
                   auto* const part = x + 4 * device;
                   ncclAllReduce(part, part, 4, ncclFloat32, ncclSum, comm, n.s.get());
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   one.end();
                   ncclMemFree(x);
                 }),
                 "is elsewhere in windows"));
  CHECK(contains(first_failure([](ncclComm_t comm, rank_gpu& n) {
                   auto* const x = allocate(8);
                   window const one(comm, x, 32);
                   ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, n.s.get());
                   one.end();
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   ncclMemFree(x);
                 }),
                 "operations of the communicator are under way"));
  CHECK(contains(first_failure([](ncclComm_t, rank_gpu& n) { ncclMemFree(n.x.data()); }),
                 "ncclMemAlloc did not give it"));
}

}  // namespace fake_nccl_registration_test
