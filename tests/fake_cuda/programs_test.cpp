// Programs refuse the fake runtime instead of mistaking it for GPUs.
#include <doctest/doctest.h>

#include <devices/cuda/devices.hpp>
#include "fake_cuda/runtime.hpp"

namespace fake_programs_test {

constexpr char const* refused =
    "the CUDA runtime of this process is the fake one of ParallelLM's tests, which computes "
    "nothing "
    "on a GPU; link with, or preload, the CUDA Toolkit's libcudart";

TEST_CASE("programs: the fake CUDA runtime is refused for every kind of device") {
  fake_cuda::restart({.devices = 2});
  REQUIRE(parallel::cuda::device::count() == 2);
  for (char const* const kind : {"auto", "cuda", "cpu"}) {
    CAPTURE(kind);
    bool called = false;
    CHECK_THROWS_WITH_AS(
        apps::with_device({.kind = kind}, [&](auto&, auto const&) { called = true; }), refused,
        parallel::error);
    CHECK(!called);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(apps::gpus()), refused, parallel::error);
  CHECK(fake_cuda::history().contexts.empty());
}

}  // namespace fake_programs_test
