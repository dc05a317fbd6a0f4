#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include <parallel/device/host/device.hpp>

namespace host_device_test {
namespace {

TEST_CASE("host::device: memory is aligned to a cache line, zeroed on request, and may be empty") {
  parallel::host::device const device;
  auto const memory = device.allocate_zeroed<double>(33);
  CHECK(memory.size() == 33);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
  for (double const value : memory.span()) CHECK(value == 0.0);
  CHECK(memory.view().extent(0) == 33);
  auto const none = device.allocate<float>(0);
  CHECK(none.empty());
  CHECK(none.span().empty());
}

TEST_CASE("buffer: the memory lives as long as a copy of its owner") {
  parallel::host::device const device;
  std::weak_ptr<void> alive;
  {
    std::shared_ptr<void> keeper;
    {
      auto const memory = device.allocate<int>(8);
      alive = memory.owner();
      keeper = memory.owner();
    }
    CHECK_FALSE(alive.expired());
  }
  CHECK(alive.expired());
}

TEST_CASE("host::device: the error for too much memory states the bytes") {
  parallel::host::device const device;
  CHECK_THROWS_WITH_AS(static_cast<void>(device.allocate<std::byte>(std::size_t{1} << 62)),
                       "out of memory: the host could not provide 4611686018427387904 bytes",
                       parallel::out_of_memory);
}

TEST_CASE("host::device: counts live bytes and their peak, shared by its copies") {
  parallel::host::device const device;
  parallel::host::device const copy = device;
  auto const first = device.allocate<double>(10);
  {
    auto const second = copy.allocate_zeroed<std::int32_t>(3);
    CHECK(device.bytes() == 80 + 12);
  }
  CHECK(device.bytes() == 80);
  auto const third = device.allocate<std::byte>(5);
  CHECK(copy.bytes() == 85);
  CHECK(device.peak_bytes() == 92);
  CHECK(parallel::host::device().bytes() == 0);
}

TEST_CASE("host::device: holds the options of its compute streams") {
  parallel::host::device const device({.threads = 3, .cores = {0}});
  CHECK(device.compute_options().threads == 3);
  parallel::host::stream const stream(device.compute_options());
  CHECK(stream.threads() == 3);
  CHECK(stream.engine() == nullptr);
}

}  // namespace
}  // namespace host_device_test
