// Reads and writes of a device's memory by the host: in place if possible, else by copies.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>

#include "support/devices/guarded_device.hpp"

namespace transfer_test {

using namespace parallel;

TEST_CASE("read_on_host, write_from_host: memory of the host is accessed in place") {
  host::device const device;
  auto const memory = device.allocate<int>(3);
  write_from_host(device, memory.span(), [&](std::span<int> elements) {
    CHECK(elements.data() == memory.data());
    std::iota(elements.begin(), elements.end(), 4);
  });
  read_on_host(device, memory.span(), [&](std::span<int const> elements) {
    CHECK(elements.data() == memory.data());
    CHECK(std::vector<int>(elements.begin(), elements.end()) == std::vector<int>{4, 5, 6});
  });
}

TEST_CASE("read_on_host, write_from_host: memory that the host cannot reach is copied") {
  guarded::device const device(std::size_t{1} << 16);
  auto const memory = device.allocate<int>(3);
  write_from_host(device, memory.span(), [&](std::span<int> elements) {
    CHECK(elements.data() != memory.data());
    std::iota(elements.begin(), elements.end(), 4);
  });
  std::vector<int> got;
  read_on_host(device, memory.span(), [&](std::span<int const> elements) {
    got.assign(elements.begin(), elements.end());
  });
  CHECK(got == std::vector<int>{4, 5, 6});
  read_on_host(device, memory.span().first(0),
               [&](std::span<int const> elements) { CHECK(elements.empty()); });
}

}  // namespace transfer_test
