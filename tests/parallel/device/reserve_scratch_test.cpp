#include <cstddef>

#include <doctest/doctest.h>

#include <parallel/device/host/device.hpp>
#include <parallel/device/reserve_scratch.hpp>

namespace reserve_scratch_test {
namespace {

struct scratchy {
  std::size_t reserved = 0;
  void reserve_scratch(std::size_t bytes) { reserved += bytes; }
};
struct strict {
  struct options {
    bool deterministic = true;
  };
  [[nodiscard]] options compute_options() const { return {}; }
};

TEST_CASE("scratch is reserved where operations take it from the device, and nowhere else") {
  scratchy takes;
  parallel::reserve_scratch(takes, 5);
  CHECK(takes.reserved == 5);
  parallel::host::stream none;
  parallel::reserve_scratch(none, std::size_t{1} << 60);
}

TEST_CASE("operations are planned as the device's streams run them") {
  CHECK(parallel::planned_streams(strict()).deterministic);
  CHECK_FALSE(parallel::planned_streams(parallel::host::device()).deterministic);
}

}  // namespace
}  // namespace reserve_scratch_test
