// cuda::stream and cuda::device on fake GPUs, where work can be delayed.
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <span>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

#include "fake_cuda/runtime.hpp"

namespace fake_stream_test {

using parallel::cuda::device;
using parallel::cuda::stream;

std::vector<float> read(device const& gpu, parallel::buffer<float> const& x) {
  std::vector<float> out;
  parallel::read_on_host(gpu, x.span(), [&](std::span<float const> values) {
    out.assign(values.begin(), values.end());
  });
  return out;
}

TEST_CASE("cuda::stream: a query of an event that has not happened leaves no error for a launch") {
  fake_cuda::restart();
  device const gpu;
  stream s;
  auto const x = gpu.allocate<float>(5);
  std::promise<void> gate;
  CHECK(fake_cuda::enqueue(s.get(), "gate", [&] { gate.get_future().wait(); }) == cudaSuccess);
  auto const mark = s.record();
  CHECK(!mark.ready());
  CHECK(!mark.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(2)));
  CHECK_NOTHROW(parallel::ops::fill(s, x.span(), 3.0F));
  gate.set_value();
  s.synchronize();
  CHECK(read(gpu, x) == std::vector<float>(5, 3.0F));
}

TEST_CASE("cuda::stream: new constants allocate nothing after reserve_scratch, and do not wait") {
  fake_cuda::restart();
  {
    device const gpu;
    stream s;
    auto const x = gpu.allocate_zeroed<float>(3);
    s.reserve_scratch(256);
    std::promise<void> gate;
    auto const opened = gate.get_future().share();
    CHECK(fake_cuda::enqueue(s.get(), "gate", [opened] {
            opened.wait_for(std::chrono::seconds(2));
          }) == cudaSuccess);
    auto const mark = s.record();
    auto const allocations_before = fake_cuda::history().allocations;
    std::vector<float> values{3, 5, 7};
    auto const constants = s.constants(std::span<float const>(values));
    CHECK(fake_cuda::history().allocations == allocations_before);
    CHECK(!mark.ready());
    CHECK(s.constants(std::span<float const>(values)).data() == constants.data());
    values = {0, 0, 0};  // the stream has copied them already
    parallel::ops::add(s, x.span(), constants);
    gate.set_value();
    s.synchronize();
    CHECK(read(gpu, x) == std::vector<float>{3, 5, 7});
    std::vector<float> const long_values(40000, 2.0F);  // more than the reserved memory
    CHECK(s.constants(std::span<float const>(long_values)).size() == long_values.size());
  }
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("cuda::device: reserved shared memory serves small allocations without new memory") {
  fake_cuda::restart();
  {
    device const gpu;
    gpu.reserve_shared();
    auto const allocations_before = fake_cuda::history().allocations;
    auto const three = gpu.allocate_shared<double>(3);
    { auto const one = gpu.allocate_shared<int>(1); }
    auto const other = gpu.allocate_shared<float>(7);
    CHECK(three.span()[2] == 0);
    CHECK(other.span()[6] == 0);
    gpu.reserve_shared();
    CHECK(fake_cuda::history().allocations == allocations_before);
    CHECK(gpu.allocate_shared<double>(3000).span()[2999] == 0);
    CHECK(fake_cuda::history().allocations == allocations_before + 1);
  }
  CHECK(fake_cuda::live_objects() == 0);
}

TEST_CASE("cuda::stream: a kernel's failure is an error in words, also of all later calls") {
  fake_cuda::restart({.devices = 2});
  device const gpu, other({.device = 1});
  stream s;
  auto const x = other.allocate<float>(5);
  parallel::ops::fill(s, x.span(), 3.0F);
  CHECK_THROWS_WITH_AS(s.synchronize(),
                       doctest::Contains("memory of GPU 1, to which GPU 0 has no access"),
                       parallel::error);
  CHECK_THROWS_AS(parallel::ops::fill(s, x.span(), 3.0F), parallel::error);
}

TEST_CASE("as_graph: each launch of a graph uses the operands of that call") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    fake_cuda::restart({.seed = seed});
    {
      device const gpu({.graphs = true});
      stream s(gpu.compute_options());
      auto const x = gpu.allocate_zeroed<float>(1000), y = gpu.allocate_zeroed<float>(1000);
      for (auto const* target : {&x, &y, &x, &y})
        parallel::as_graph(s, {}, [&] {
          parallel::ops::scale(s, target->span(), 3.0F);
          parallel::ops::add(s, target->span(), std::span<float const>(x.span()));
          parallel::ops::fill(s, x.span().first(1), 1.0F);
        });
      s.synchronize();
      CHECK(read(gpu, x)[0] == 1.0F);
      CHECK(read(gpu, y)[0] == 4.0F);  // x[0] is 1: 0 + 1, then 3 + 1
      CHECK(fake_cuda::history().graph_launches == 3);
      CHECK(fake_cuda::history().instantiations == 1);
    }
    CHECK(fake_cuda::live_objects() == 0);
  }
}

}  // namespace fake_stream_test
