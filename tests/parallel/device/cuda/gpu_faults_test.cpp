// Faults of a GPU, with a fake NVML library and without one.
#include <doctest/doctest.h>

#include <memory>

#include <parallel/device/cuda/gpu_faults.hpp>

#include "support/devices/fake_nvml.hpp"

namespace gpu_faults_test {

using parallel::cuda::gpu_faults;
using number = unsigned long long;

constexpr number critical = 0x8, double_bit = 0x2, single_bit = 0x1;

TEST_CASE("gpu_faults: a machine without NVML has no faults") {
  gpu_faults faults(std::make_shared<parallel::cuda::nvml_device>(
      "0000:3b:00.0", "libthere-is-no-such-library.so"));
  CHECK(faults.take().empty());
}

TEST_CASE("gpu_faults: take returns each new fault once, with its meaning") {
  test::fake_nvml const nvml;
  if (!nvml.is_available()) {
    MESSAGE("no C compiler here: skipped");
    return;
  }
  nvml.state<int>("ecc") = 1;
  auto& errors = nvml.state<number>("errors");
  errors = 5;
  auto const& types = nvml.state<number>("types");
  {
    gpu_faults faults(nvml.gpu());
    CHECK(types == (critical | double_bit));
    CHECK(faults.take().empty());  // the five older errors do not count

    nvml.report(critical, 79);
    CHECK(faults.take() == "Xid 79 (the GPU has fallen off the bus; drain the machine)");
    CHECK(faults.take().empty());

    errors = 6;
    nvml.report(double_bit, 0);
    nvml.report(critical, 48);
    nvml.report(critical, 45);
    CHECK(faults.take() ==
          "Xid 48 (a memory error of two bits; drain the machine), "
          "Xid 45 (work was ended because of an earlier error), 1 uncorrected memory error");
    errors = 9;
    nvml.report(critical, 62);
    CHECK(faults.take() == "Xid 62, 3 uncorrected memory errors");

    for (int i = 0; i < 90; ++i)
      nvml.report(critical, 31);  // take() reads a limited number of events
    CHECK(faults.take() ==
          "Xid 31 (an access to memory that is not mapped, usually an error of the program)");
    nvml.state<int>("lost") = 1;
    CHECK(faults.take() == "NVML has lost the GPU");
    nvml.state<int>("lost") = 0;
  }
  CHECK(nvml.state<int>("sets") == 0);
  CHECK(nvml.state<int>("users") == 0);
}

TEST_CASE("gpu_faults: a GPU without ECC still reports the driver's errors") {
  test::fake_nvml const nvml;
  if (!nvml.is_available()) return;
  nvml.state<number>("refused") = double_bit | single_bit;
  gpu_faults faults(nvml.gpu());
  nvml.report(critical, 13);
  CHECK(faults.take() == "Xid 13 (an exception in a kernel, usually an error of the program)");

  nvml.state<number>("refused") = critical;  // registration of critical events fails
  gpu_faults silent(nvml.gpu());
  CHECK(nvml.state<int>("sets") == 1);
  CHECK(silent.take().empty());
}

}  // namespace gpu_faults_test
