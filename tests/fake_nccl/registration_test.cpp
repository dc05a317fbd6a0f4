// What is exchanged in every step is registered with NCCL, once, for as long as it is there.
#include <doctest/doctest.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/nccl/memory.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/device/exchanged_memory.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_cuda/trained_model.hpp"
#include "fake_nccl/ranks.hpp"
#include "parallel/support/files.hpp"

namespace fake_nccl_registration_test {

using parallel::reduction;
using parallel::conformance::message_of;
using parallel::nccl::communicator;
using test::contains;
using traffic = fake_nccl::record::traffic;

void restart(int ranks) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart({.patience = std::chrono::seconds(2)});
}

struct numbers {
  parallel::cuda::device device = fake_cuda::current_gpu();
  parallel::buffer<float> x = device.allocate_zeroed<float>(8);
  parallel::cuda::stream s{parallel::comm_options<communicator>(device)};
};

/// Ranks whose devices take what is exchanged from NCCL's memory, of so many bytes or more.
struct in_windows {
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

/// Of a run of two steps and an evaluation of a small model.
fake_nccl::record trained(test::model_layout how, bool windows = false) {
  how.steps = 2;
  restart(how.context * how.tensor * how.replicate * how.pipeline * how.shard);
  auto const never = static_cast<std::size_t>(-1);
  static_cast<void>(test::run_model<float>(fake_cuda::small_model(true), how, in_windows::device,
                                           in_windows{windows ? 0 : never}));
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
  auto const got = fake_nccl::happened();
  for (auto const& failure : got.failures) CHECK(failure == "");
  return got;
}

traffic of(fake_nccl::record const& all, char const* what) {
  auto const found = all.exchanged.find(what);
  return found == all.exchanged.end() ? traffic() : found->second;
}

TEST_CASE("gradients and parameters of every step lie in registered memory, at every ZeRO level") {
  using enum parallel::zero::level;
  for (auto const level : {optimizer, gradients, parameters})
    for (int const replicas : {1, 2}) {
      CAPTURE(level);
      CAPTURE(replicas);
      auto const got =
          trained({.replicate = replicas, .level = level, .shard = 2, .microbatch = 1});
      auto const scattered = of(got, "ncclReduceScatter of f32");
      auto const gathered = of(got, "ncclAllGather of f32");
      auto const summed = of(got, "ncclAllReduce of f32");
      CHECK(scattered.bytes > 10'000);
      CHECK(scattered.registered == scattered.bytes);
      CHECK(gathered.bytes > 10'000);
      CHECK(gathered.registered == gathered.bytes);
      CHECK((summed.registered > 10'000) == (replicas > 1));
      CHECK(summed.bytes - summed.registered < 500);  // a few numbers that ranks agree on
    }
}

TEST_CASE("what a step exchanges lies in windows, at the same place on every rank") {
  using enum parallel::zero::level;
  for (auto const level : {none, optimizer, gradients, parameters})
    for (int const replicas : {1, 2}) {
      int const shards = level == none ? 1 : 2;
      if (shards * replicas == 1) continue;
      CAPTURE(level);
      CAPTURE(replicas);
      auto const got =
          trained({.replicate = replicas, .level = level, .shard = shards, .microbatch = 1}, true);
      for (auto const* what :
           {"ncclReduceScatter of f32", "ncclAllGather of f32", "ncclAllReduce of f32"}) {
        CAPTURE(what);
        CHECK(of(got, what).in_windows == of(got, what).registered);
      }
      CHECK(of(got, level == none ? "ncclAllReduce of f32" : "ncclAllGather of f32").in_windows >
            10'000);
    }
}

TEST_CASE("tensor, context and pipeline ranks hold windows too") {
  using enum parallel::zero::level;
  for (auto const& how : {test::model_layout{.tensor = 2, .level = parameters, .shard = 2},
                          test::model_layout{.context = 2, .level = optimizer, .shard = 2},
                          test::model_layout{.pipeline = 2, .level = gradients, .shard = 2}})
    CHECK(of(trained(how, true), "ncclAllGather of f32").in_windows > 5'000);
}

TEST_CASE("without ZeRO the gradients are registered, and what is small is not") {
  auto const got = trained({.replicate = 2, .microbatch = 1});
  auto const summed = of(got, "ncclAllReduce of f32");
  CHECK(summed.registered > 10'000);
  CHECK(summed.bytes - summed.registered < 500);
}

TEST_CASE("one buffer of each kind is registered with each axis that carries it") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    numbers n;
    auto part = comm.split(0, "shard");
    auto const with_whole = register_memory(comm, n.x), with_part = register_memory(part, n.x);
    for (auto* const one : {&comm, &part})
      one->all_reduce(n.s, n.x.span().first(4), reduction::sum).wait();
  });
  auto const got = fake_nccl::happened();
  CHECK(got.registered == 4);
  CHECK(of(got, "ncclAllReduce of f32").bytes == std::size_t{2 * 2 * 2 * 16});
  CHECK(of(got, "ncclAllReduce of f32").registered == std::size_t{2 * 2 * 2 * 16});
  CHECK(got.failures.empty());
}

TEST_CASE("an erased communicator registers too, and one rank alone does not") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    numbers n;
    parallel::nccl::any_communicator any(comm);
    CHECK(register_memory(any, n.x) != nullptr);
    CHECK(register_memory(any, parallel::buffer<float>()) == nullptr);
    auto alone = any.split(any.rank(), "tensor");
    CHECK(register_memory(alone, n.x) == nullptr);
  });
  CHECK(fake_nccl::happened().failures.empty());
}

TEST_CASE("registered memory and its communicator live until the registration ends") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    parallel::registered_memory kept;
    std::weak_ptr<void> memory;
    {
      numbers n;
      auto part = comm.split(0, "shard");
      kept = register_memory(part, n.x);
      memory = n.x.owner();
      static_cast<void>(part.all_reduce(n.s, n.x.span(), reduction::sum));  // is not waited for
    }
    CHECK(!memory.expired());
    kept.reset();
    CHECK(memory.expired());
  });
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("a machine without windows registers NCCL's memory as any other") {
  for (bool const windows : {false, true}) {
    fake_cuda::restart({.devices = 2, .peers = false});
    fake_nccl::restart({.windows = windows, .patience = std::chrono::seconds(2)});
    in_windows()(2, [](communicator& comm) {
      auto const device = in_windows::device();
      auto const x = device.allocate_exchanged<float>(8, 8);
      auto const kept = register_memory(comm, x);
      parallel::cuda::stream s(parallel::comm_options<communicator>(device));
      comm.all_reduce(s, x.span(), reduction::sum).wait();
    });
    auto const got = fake_nccl::happened();
    CHECK(got.failures.empty());
    CHECK(of(got, "ncclAllReduce of f32").registered == 128);
    CHECK(of(got, "ncclAllReduce of f32").in_windows == (windows ? 128 : 0));
    CHECK(got.names.contains("ncclCommRegister") == !windows);
  }
}

TEST_CASE(
    "NCCL gives memory for what is exchanged in large pieces alone; it is counted as others") {
  restart(2);
  fake_nccl::ranks({.least_window_bytes = 400})(2, [](communicator& comm) {
    auto device = fake_cuda::current_gpu();
    auto const copy = device;
    device.take_exchanged_from(comm.exchanged_memory());
    auto const small = copy.allocate_exchanged<float>(99, 99);
    parallel::cuda::stream s(parallel::comm_options<communicator>(device));
    CHECK(fake_nccl::happened().given == 0);
    comm.barrier(s).wait();
    auto const part = copy.allocate_exchanged<float>(10, 100);
    auto const none = copy.allocate_exchanged<float>(0, 100);
    float last = 1;
    device.download(std::span(&last, 1), std::span<float const>(part.span()).last(1));
    CHECK(last == 0);
    CHECK(device.bytes() == (99 + 10) * sizeof(float));
    comm.barrier(s).wait();
    CHECK(fake_nccl::happened().given == 4);
  });
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("who waits for another rank's window does not, when that has failed") {
  restart(2);
  std::string waited;
  CHECK(message_of([&] {
          in_windows()(2, [&](communicator& comm) {
            auto const device = in_windows::device();
            auto const x = device.allocate_exchanged<float>(8, 8);
            parallel::require(comm.rank() == 0, "the disk is full");
            waited = message_of([&] { static_cast<void>(register_memory(comm, x)); });
          });
        }) == "the disk is full");
  CHECK(waited == "rank 1 failed: the disk is full");
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("a piece is NCCL's memory until it is freed") {
  restart(1);
  static_cast<void>(fake_cuda::current_gpu());
  auto const memory = std::make_shared<parallel::nccl::memory>();
  auto piece = memory->allocate(8);
  void const* const at = piece.get();
  CHECK(memory->contains_allocation(at));
  CHECK_FALSE(memory->contains_allocation(static_cast<std::byte const*>(at) + 1));
  piece.reset();
  CHECK_FALSE(memory->contains_allocation(at));
  fake_cuda::fail_next("cudaMalloc");
  CHECK(memory->allocate(8) == nullptr);
}

TEST_CASE("NCCL's memory outlives its communicator, and what was enqueued on it") {
  restart(2);
  in_windows()(2, [](communicator& comm) {
    auto const device = in_windows::device();
    auto x = device.allocate_exchanged<float>(8, 8);
    parallel::cuda::stream s(parallel::comm_options<communicator>(device));
    {
      auto part = comm.split(0, "shard");
      static_cast<void>(part.all_reduce(s, x.span(), reduction::sum));
    }
    CHECK(fake_cuda::enqueue(s.get(), "late", [device = comm.rank(), at = x.data()] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            fake_cuda::require_access(device, at, sizeof *at, "late work");
          }) == cudaSuccess);
    x = {};
  });
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("a registration ends when what was enqueued has run") {
  restart(2);
  fake_nccl::ranks()(2, [](communicator& comm) {
    numbers n;
    auto kept = register_memory(comm, n.x);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * comm.rank()));
    auto request = comm.all_reduce(n.s, n.x.span(), reduction::sum);
    kept.reset();
    request.wait();
  });
  CHECK(fake_nccl::happened().failures.empty());
}

TEST_CASE("an abort ends registrations; what is left of them does nothing more") {
  restart(2);
  static_cast<void>(message_of([] {
    fake_nccl::ranks()(2, [](communicator& comm) {
      numbers n;
      auto const kept = register_memory(comm, n.x);
      if (comm.rank() == 0) comm.abort("the disk is full");
      comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
    });
  }));
  auto const got = fake_nccl::happened();
  CHECK(got.aborted == 2);
  CHECK(got.failures.empty());
  CHECK(!got.names.contains("ncclCommDeregister"));
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("memory that NCCL refuses is told in its words") {
  restart(2);
  auto const told = message_of([] {
    fake_nccl::ranks()(2, [](communicator& comm) {
      float of_host[8] = {};
      static_cast<void>(register_memory(comm, parallel::buffer<float>(nullptr, of_host, 8)));
    });
  });
  CHECK(told.find("ncclCommRegister failed: invalid argument; ncclCommRegister: the memory is not "
                  "of the communicator's device") != std::string::npos);
}

void settle(ncclComm_t comm) {
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
    ncclCommGetAsyncError(comm, &state);
}

/// What the library says first of ranks that do `wrong` with a communicator of their own.
std::string seen(std::function<void(ncclComm_t, numbers&)> const& wrong) {
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
        numbers n;
        wrong(comm, n);
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
  auto const failures = fake_nccl::happened().failures;
  return failures.empty() ? "" : failures.front();
}

void* registered(ncclComm_t comm, void* memory, std::size_t bytes) {
  void* handle = nullptr;
  ncclCommRegister(comm, memory, bytes, &handle);
  return handle;
}

TEST_CASE("the library sees what is done wrong") {
  CHECK(seen([](ncclComm_t comm, numbers& n) {
          ncclCommDeregister(comm, registered(comm, n.x.data(), 32));
        }) == "");
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   float* const freed = n.x.data();
                   n.x = {};
                   registered(comm, freed, 32);
                 }),
                 "the memory is not of the communicator's device"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) { registered(comm, n.x.data(), 36); }),
                 "ncclCommRegister: 36 bytes go beyond the end of memory of GPU"));
  CHECK(contains(seen([](ncclComm_t comm, numbers&) {
                   float of_host[8] = {};
                   registered(comm, of_host, sizeof of_host);
                 }),
                 "the memory is not of the communicator's device"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   ncclCommDeregister(comm, handle);
                   ncclCommDeregister(comm, handle);
                 }),
                 "nothing of the communicator is registered so"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) { registered(comm, n.x.data(), 32); }),
                 "ncclCommDestroy: 1 pieces of memory are still registered"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   n.x = {};
                   ncclCommDeregister(comm, handle);
                 }),
                 "memory was freed while it was registered"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   int device = 0;
                   cudaGetDevice(&device);
                   void* const handle = device == 0 ? registered(comm, n.x.data(), 32) : nullptr;
                   ncclAllReduce(n.x.data(), n.x.data(), 8, ncclFloat32, ncclSum, comm, n.s.get());
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   if (handle != nullptr) ncclCommDeregister(comm, handle);
                 }),
                 "is of registered memory on some alone"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   auto* const handle = registered(comm, n.x.data(), 32);
                   ncclAllReduce(n.x.data(), n.x.data(), 8, ncclFloat32, ncclSum, comm, n.s.get());
                   ncclCommDeregister(comm, handle);
                 }),
                 "operations of the communicator are under way"));
}

struct window {
  ncclComm_t comm;
  ncclWindow_t made = nullptr;
  window(ncclComm_t of, void* memory, std::size_t bytes) : comm(of) {
    ncclCommWindowRegister(comm, memory, bytes, &made, NCCL_WIN_COLL_SYMMETRIC);
    settle(comm);
  }
  void end() const { ncclCommWindowDeregister(comm, made); }
};

float* given(std::size_t count) {
  void* memory = nullptr;
  ncclMemAlloc(&memory, count * sizeof(float));
  return static_cast<float*>(memory);
}

TEST_CASE("the library sees what is done wrong with windows") {
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) { window(comm, n.x.data(), 32); }),
                 "the memory is not one piece that ncclMemAlloc gave"));
  CHECK(contains(seen([](ncclComm_t comm, numbers&) {
                   auto* const x = given(9);
                   window(comm, x + 1, 32);
                   ncclMemFree(x);
                 }),
                 "does not begin at a multiple of 4096 bytes"));
  CHECK(contains(seen([](ncclComm_t comm, numbers&) {
                   auto* const x = given(8);
                   window const one(comm, x, 32);
                   window(comm, x, 16);
                   one.end();
                   ncclMemFree(x);
                 }),
                 "the memory is in another window"));
  CHECK(contains(seen([](ncclComm_t comm, numbers&) {
                   int device = 0;
                   cudaGetDevice(&device);
                   auto* const x = given(8);
                   window(comm, x, device == 0 ? 32 : 16).end();
                   ncclMemFree(x);
                 }),
                 "disagree: window 1 has"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   int device = 0;
                   cudaGetDevice(&device);
                   auto* const x = given(8);
                   window const one(comm, x, 32);
                   auto* const at = x + 4 * device;
                   ncclAllReduce(at, at, 4, ncclFloat32, ncclSum, comm, n.s.get());
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   one.end();
                   ncclMemFree(x);
                 }),
                 "is elsewhere in windows"));
  CHECK(contains(seen([](ncclComm_t comm, numbers& n) {
                   auto* const x = given(8);
                   window const one(comm, x, 32);
                   ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, n.s.get());
                   one.end();
                   settle(comm);
                   cudaStreamSynchronize(n.s.get());
                   ncclMemFree(x);
                 }),
                 "operations of the communicator are under way"));
  CHECK(contains(seen([](ncclComm_t, numbers& n) { ncclMemFree(n.x.data()); }),
                 "ncclMemAlloc did not give it"));
}

}  // namespace fake_nccl_registration_test
