// cuda::device and cuda::stream on a fake CUDA runtime.
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

#include "support/devices/fake_cuda.hpp"

namespace fake_device_test {

using parallel::cuda::device;
using parallel::cuda::stream;

static_assert(parallel::device<device> && parallel::stream<stream>);
static_assert(!parallel::waits_asynchronously<stream, parallel::host::event>);
static_assert(std::is_same_v<parallel::comm_stream<device, parallel::any_communicator>,
                             parallel::cuda::comm_stream>);

TEST_CASE("cuda::device: a machine without a GPU, or with one that is too old, is an error") {
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

TEST_CASE("cuda::device: devices on the same GPU have equal identities") {
  fake::machine() = {.devices = 2};
  device const first({.device = 0}), same_gpu({.device = 0}), second({.device = 1});
  CHECK(first.identity() == same_gpu.identity());
  CHECK(first.identity() != second.identity());
}

TEST_CASE("cuda::device: memory is counted and freed; errors state the free bytes") {
  fake::machine() = {.memory = 1000};
  {
    device const gpu;
    auto const copy = gpu;  // a copy shares the counter of bytes
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
    CHECK(gpu.peak_flops(parallel::dtype::bf16) == 0);  // unknown GPU
    auto const shared = gpu.allocate_shared<double>(4);
    CHECK(fake::machine().pinned.contains(shared.data()));
    CHECK(gpu.bytes() == 0);
  }
  CHECK(fake::machine().allocated.empty());
  CHECK(fake::machine().pinned.empty());
}

TEST_CASE("cuda::device: the host reads and writes elements by copies") {
  fake::machine() = {};
  device const gpu;
  auto const memory = gpu.allocate<int>(5);
  parallel::write_from_host(gpu, memory.span(), [](std::span<int> elements) {
    std::iota(elements.begin(), elements.end(), 3);
  });
  std::vector<int> got;
  parallel::read_on_host(gpu, memory.span(), [&](std::span<int const> elements) {
    got.assign(elements.begin(), elements.end());
  });
  CHECK(got == std::vector{3, 4, 5, 6, 7});
  CHECK_THROWS_AS(gpu.upload(memory.span(), std::vector<int>(4)), parallel::error);
}

TEST_CASE(
    "cuda::stream: scratch memory grows and stays, constants are copied once, waits obey "
    "deadlines") {
  fake::machine() = {};
  {
    stream s;
    auto* const first = s.scratch(100);
    CHECK(s.scratch(50) == first);
    CHECK(s.scratch_bytes() == 100);
    CHECK(s.scratch(200) != nullptr);
    CHECK(fake::machine().used() == 200);
    std::vector<float> const slopes{0.5F, 0.25F};
    auto const copy = s.constants<float>(slopes);
    CHECK(std::vector<float>(copy.begin(), copy.end()) == slopes);
    CHECK(s.constants<float>(std::vector<float>(slopes)).data() == copy.data());
    CHECK(s.constants<float>({}).empty());
    auto const event = s.record();
    CHECK(event.ready());
    s.wait(event);
    fake::machine().busy = true;
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    CHECK(!event.wait_until(deadline));
    CHECK(std::chrono::steady_clock::now() >= deadline);
    fake::machine().busy = false;
    CHECK(event.wait_until(deadline));
    fake::machine().fails = "cudaEventSynchronize";
    CHECK_THROWS_WITH_AS(s.synchronize(), doctest::Contains("cudaEventSynchronize failed with"),
                         parallel::error);
  }
  CHECK(fake::machine().allocated.empty());
  CHECK(fake::machine().streams == 0);
  CHECK(fake::machine().events == 0);
}

TEST_CASE("cuda::device: the readings include the scratch memory of all streams") {
  fake::machine() = {};
  device const gpu;
  CHECK(gpu.peak_scratch_bytes() == 0);
  auto const memory = gpu.allocate<float>(25);  // not from the scratch pool
  {
    stream compute, second;
    static_cast<void>(compute.scratch(1000));
    static_cast<void>(second.scratch(300));
    CHECK(gpu.peak_scratch_bytes() == 1300);
    static_cast<void>(compute.scratch(1500));  // the 1000 bytes are freed first
    CHECK(gpu.peak_scratch_bytes() == 1800);
  }
  CHECK(gpu.peak_scratch_bytes() == 1800);
  auto const readings = gpu.readings();
  CHECK(readings.back().first == "memory/peak_device_gb");
  CHECK(readings.back().second == 1900e-9);
}

TEST_CASE("cuda::stream: waiting for a stream or an event does not spin") {
  fake::machine() = {};
  stream s;
  s.synchronize();
  s.record().wait();
  parallel::cuda::issuing_stream exchanges(s, {});
  exchanges.enqueue_on_device([](stream&) {});
  exchanges.synchronize();
  CHECK(fake::machine().spinning_waits == 0);
}

TEST_CASE("cuda::device: a process takes memory of its own GPU only") {
  fake::machine() = {.devices = 3};
  std::thread([] {  // GPU 0 is current at first, as in every thread
    device const gpu({.device = 2});
    auto const memory = gpu.allocate_zeroed<int>(4);
    auto const shared = gpu.allocate_shared<int>(4);
    std::vector<int> host_copy(4);
    gpu.download(std::span(host_copy), std::span<int const>(memory.span()));
    stream s(gpu.compute_options());
    CHECK(s.scratch(10) != nullptr);
    parallel::cuda::issuing_stream exchanges(s, {});
    exchanges.enqueue_on_device(
        [](stream& device_stream) { static_cast<void>(device_stream.record()); });
    exchanges.wait(s.record());
    exchanges.synchronize();
  })
      .join();
  CHECK(fake::machine().contexts == std::set{2});
}

TEST_CASE("device_scope: a device is current in the scope, and the previous one after it") {
  fake::machine() = {.devices = 2};
  parallel::cuda::device_scope const scope(0);
  {
    parallel::cuda::device_scope const other(1);
    CHECK(fake::current_device() == 1);
  }
  CHECK(fake::current_device() == 0);
}

}  // namespace fake_device_test
