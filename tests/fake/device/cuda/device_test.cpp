// cuda::device and cuda::stream, on a CUDA runtime that is only fake.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>
#include <parallel/device/transfer.hpp>

#include "support/fake_cuda.hpp"

namespace fake_device_test {

using parallel::cuda::device;
using parallel::cuda::stream;

static_assert(parallel::device<device> && parallel::stream<stream>);
static_assert(!parallel::waits_by_itself<stream, parallel::host::event>);
static_assert(std::is_same_v<parallel::comm_stream<device, parallel::any_communicator>,
                             parallel::cuda::comm_stream>);

TEST_CASE("a machine without a GPU, or with one that is too old, is refused") {
  fake::machine() = {.devices = 0};
  CHECK(device::count() == 0);
  CHECK_THROWS_WITH_AS(device(), doctest::Contains("no GPU can be used"), parallel::error);
  fake::machine() = {.devices = 2};
  CHECK(device::count() == 2);
  CHECK_THROWS_WITH_AS(device({.device = 2}),
                       "there is no GPU 2: this machine has 2, counted from 0", parallel::error);
  fake::machine() = {.major = 7};
  CHECK_THROWS_WITH_AS(device(), doctest::Contains("bf16 needs 8.0 (A100) or newer"),
                       parallel::error);
}

TEST_CASE("a GPU is known by its identity, whoever has it") {
  fake::machine() = {.devices = 2};
  device const first({.device = 0}), again({.device = 0}), second({.device = 1});
  CHECK(first.identity() == again.identity());
  CHECK(first.identity() != second.identity());
}

TEST_CASE("memory is counted, freed, and refused with what is left") {
  fake::machine() = {.memory = 1000};
  {
    device const gpu;
    auto const copy = gpu;  // counts together
    {
      auto const a = gpu.allocate<float>(100);
      auto const b = copy.allocate_zeroed<std::int32_t>(50);
      CHECK(gpu.bytes() == 600);
      CHECK(gpu.available_bytes() == 400);
      CHECK(b.span()[49] == 0);
      CHECK_THROWS_WITH_AS(static_cast<void>(gpu.allocate<float>(101)),
                           "out of memory: GPU 0 could not provide 404 bytes; 400 of 1000 are free",
                           parallel::out_of_memory);
    }
    CHECK(gpu.bytes() == 0);
    CHECK(gpu.peak_bytes() == 600);
    CHECK(gpu.peak_flops(parallel::dtype::bf16) == 0);  // nobody knows this GPU
    auto const shared = gpu.allocate_shared<double>(4);
    CHECK(fake::machine().pinned.contains(shared.data()));
    CHECK(gpu.bytes() == 0);
  }
  CHECK(fake::machine().allocated.empty());
  CHECK(fake::machine().pinned.empty());
}

TEST_CASE("elements come and go through the host's copies") {
  fake::machine() = {};
  device const gpu;
  auto const there = gpu.allocate<int>(5);
  parallel::write_from_host(gpu, there.span(),
                            [](std::span<int> here) { std::iota(here.begin(), here.end(), 3); });
  std::vector<int> got;
  parallel::read_on_host(gpu, there.span(),
                         [&](std::span<int const> here) { got.assign(here.begin(), here.end()); });
  CHECK(got == std::vector{3, 4, 5, 6, 7});
  CHECK_THROWS_AS(gpu.upload(there.span(), std::vector<int>(4)), parallel::error);
}

TEST_CASE("a stream's scratch memory grows and stays, and constants are copied once") {
  fake::machine() = {};
  {
    stream s;
    auto* const first = s.scratch(100);
    CHECK(s.scratch(50) == first);
    CHECK(s.scratch_bytes() == 100);
    CHECK(s.scratch(200) != nullptr);
    CHECK(fake::machine().used() == 200);
    std::vector<float> const slopes{0.5F, 0.25F};
    auto const there = s.constants<float>(slopes);
    CHECK(std::vector<float>(there.begin(), there.end()) == slopes);
    CHECK(s.constants<float>(std::vector<float>(slopes)).data() == there.data());
    CHECK(s.constants<float>({}).empty());
    auto const mark = s.record();
    CHECK(mark.ready());
    s.wait(mark);
    fake::machine().busy = true;
    auto const soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    CHECK(!mark.wait_until(soon));
    CHECK(std::chrono::steady_clock::now() >= soon);
    fake::machine().busy = false;
    CHECK(mark.wait_until(soon));
    fake::machine().fails = "cudaEventSynchronize";
    CHECK_THROWS_WITH_AS(s.synchronize(), doctest::Contains("cudaEventSynchronize failed with"),
                         parallel::error);
  }
  CHECK(fake::machine().allocated.empty());
  CHECK(fake::machine().streams == 0);
  CHECK(fake::machine().events == 0);
}

TEST_CASE("the scratch memory of all streams is counted, and told beside what was given out") {
  fake::machine() = {};
  device const gpu;
  CHECK(gpu.peak_scratch_bytes() == 0);
  auto const memory = gpu.allocate<float>(25);  // not of the pool
  {
    stream compute, beside;
    static_cast<void>(compute.scratch(1000));
    static_cast<void>(beside.scratch(300));
    CHECK(gpu.peak_scratch_bytes() == 1300);
    static_cast<void>(compute.scratch(1500));  // the smaller one is given back first
    CHECK(gpu.peak_scratch_bytes() == 1800);
  }
  CHECK(gpu.peak_scratch_bytes() == 1800);
  auto const readings = gpu.readings();
  CHECK(readings.back().first == "memory/peak_device_gb");
  CHECK(readings.back().second == 1900e-9);
}

TEST_CASE("who waits for a stream or an event does not spin") {
  fake::machine() = {};
  stream s;
  s.synchronize();
  s.record().wait();
  parallel::cuda::issuing_stream exchanges(s, {});
  exchanges.on_device([](stream&) {});
  exchanges.synchronize();
  CHECK(fake::machine().spinning_waits == 0);
}

TEST_CASE("a process takes memory of its own GPU only, whatever its threads do") {
  fake::machine() = {.devices = 3};
  std::thread([] {  // begins with GPU 0 current, as every thread
    device const gpu({.device = 2});
    auto const there = gpu.allocate_zeroed<int>(4);
    auto const shared = gpu.allocate_shared<int>(4);
    std::vector<int> here(4);
    gpu.download(std::span(here), std::span<int const>(there.span()));
    stream s(gpu.compute_options());
    CHECK(s.scratch(10) != nullptr);
    parallel::cuda::issuing_stream exchanges(s, {});
    exchanges.on_device([](stream& on) { static_cast<void>(on.record()); });
    exchanges.wait(s.record());
    exchanges.synchronize();
  })
      .join();
  CHECK(fake::machine().contexts == std::set{2});
}

TEST_CASE("a device is current for a scope, and the one before comes back") {
  fake::machine() = {.devices = 2};
  parallel::cuda::device_scope const own(0);
  {
    parallel::cuda::device_scope const other(1);
    CHECK(fake::current_device() == 1);
  }
  CHECK(fake::current_device() == 0);
}

}  // namespace fake_device_test
