// The meter of a GPU, with a fake NVML library and without one.
#include <doctest/doctest.h>

#include <map>
#include <memory>

#include <parallel/device/cuda/gpu_meter.hpp>

#include "support/devices/fake_nvml.hpp"

namespace gpu_meter_test {

using parallel::cuda::gpu_meter;
using readings = std::map<std::string, double>;

[[nodiscard]] readings read(gpu_meter const& meter) {
  auto const readings = meter.read();
  return {readings.begin(), readings.end()};
}

TEST_CASE("gpu_meter: reads nothing on a machine without NVML") {
  gpu_meter const meter(std::make_shared<parallel::cuda::nvml_device>(
      "0000:3b:00.0", "libthere-is-no-such-library.so"));
  CHECK(meter.read().empty());
}

TEST_CASE(
    "gpu_meter: supported readings are converted to our units; unsupported ones are omitted") {
  test::fake_nvml const nvml;
  if (!nvml.is_available()) {
    MESSAGE("no C compiler here: skipped");
    return;
  }
  auto const& users = nvml.state<int>("users");
  CHECK(gpu_meter(nvml.gpu("0000:00:00.0")).read().empty());
  CHECK(users == 0);
  {
    gpu_meter const meter(nvml.gpu());
    CHECK(users == 0);  // NVML is loaded at the first read
    readings expected{
        {"device/utilisation", 0.87}, {"device/power_watts", 612.5}, {"device/sm_clock_mhz", 1755}};
    CHECK(read(meter) == expected);
    nvml.state<int>("ecc") = 1;
    nvml.state<unsigned long long>("errors") = 7;
    expected["device/ecc_uncorrected"] = 7;
    CHECK(read(meter) == expected);
    CHECK(users == 1);
  }
  CHECK(users == 0);
}

}  // namespace gpu_meter_test
