// Reading and writing a device's memory from the host: in place where it can, by copies elsewhere.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>

#include "support/guarded_device.hpp"

namespace transfer_test {

using namespace parallel;

TEST_CASE("memory of the host is read and written where it is") {
  host::device const device;
  auto const memory = device.allocate<int>(3);
  write_from_host(device, memory.span(), [&](std::span<int> here) {
    CHECK(here.data() == memory.data());
    std::iota(here.begin(), here.end(), 4);
  });
  read_on_host(device, memory.span(), [&](std::span<int const> here) {
    CHECK(here.data() == memory.data());
    CHECK(std::vector<int>(here.begin(), here.end()) == std::vector<int>{4, 5, 6});
  });
}

TEST_CASE("memory that the host cannot reach comes and goes by copies") {
  guarded::device const device(std::size_t{1} << 16);
  auto const memory = device.allocate<int>(3);
  write_from_host(device, memory.span(), [&](std::span<int> here) {
    CHECK(here.data() != memory.data());
    std::iota(here.begin(), here.end(), 4);
  });
  std::vector<int> got;
  read_on_host(device, memory.span(),
               [&](std::span<int const> here) { got.assign(here.begin(), here.end()); });
  CHECK(got == std::vector<int>{4, 5, 6});
  read_on_host(device, memory.span().first(0),
               [&](std::span<int const> here) { CHECK(here.empty()); });
}

}  // namespace transfer_test
