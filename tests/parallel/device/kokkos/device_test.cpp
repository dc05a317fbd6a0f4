// The laws of devices on Kokkos's, and what it says where Kokkos was not initialised.
#include <atomic>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/conformance/device.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/kokkos/device.hpp>
#include <parallel/ops/kokkos.hpp>

#include "support/kokkos.hpp"

namespace kokkos_device_test {

namespace kokkos = parallel::kokkos;

static_assert(parallel::device<kokkos::device>);
static_assert(parallel::task_stream<kokkos::stream>);

TEST_CASE("a stream is refused before Kokkos is initialised") {  // comes first in this file
  REQUIRE_FALSE(Kokkos::is_initialized());
  CHECK_THROWS_WITH_AS(
      kokkos::stream(),
      "a stream of Kokkos needs Kokkos::initialize, or a Kokkos::ScopeGuard, before it",
      parallel::error);
}

TEST_CASE("the laws of devices on Kokkos's") {
  test::with_kokkos();
  kokkos::device device;
  parallel::conformance::check_device(device);
}

TEST_CASE("every part is computed once, and all when the task is over") {
  test::with_kokkos();
  constexpr parallel::index parts = 1000;
  std::vector<std::atomic<int>> times(parts);
  kokkos::stream s;
  s.enqueue([&] {
    kokkos::stream::for_each_part(
        "test", parts, [data = times.data()](parallel::index part) { data[part].fetch_add(1); });
  });
  s.synchronize();
  for (auto const& each : times) CHECK(each == 1);
}

}  // namespace kokkos_device_test
