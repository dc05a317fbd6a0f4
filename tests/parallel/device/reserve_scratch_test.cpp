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

TEST_CASE("reserve_scratch: allocates only for streams that take scratch from the device") {
  scratchy takes;
  parallel::reserve_scratch(takes, 5);
  CHECK(takes.reserved == 5);
  parallel::host::stream none;
  parallel::reserve_scratch(none, std::size_t{1} << 60);
}

TEST_CASE("planning_stream_options: deterministic as the device's streams") {
  CHECK(parallel::planning_stream_options(strict()).deterministic);
  CHECK_FALSE(parallel::planning_stream_options(parallel::host::device()).deterministic);
}

}  // namespace
}  // namespace reserve_scratch_test
