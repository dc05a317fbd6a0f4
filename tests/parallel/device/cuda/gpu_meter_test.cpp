// The meter of a GPU, by a library that plays NVML; and without one.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

#include <parallel/device/cuda/gpu_meter.hpp>

namespace gpu_meter_test {

using parallel::cuda::gpu_meter;

// NVML as its documentation has it, without clocks of the memory and with a GPU that refuses to
// tell its errors.
constexpr char const* fake = R"(
#include <string.h>
static int gpu;
int users;
int nvmlInit_v2(void) { ++users; return 0; }
int nvmlShutdown(void) { --users; return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(char const* at, void** out) {
  if (strcmp(at, "0000:3b:00.0") != 0) return 6;
  *out = &gpu;
  return 0;
}
struct rates { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void* d, struct rates* r) { r->gpu = 87; r->memory = 40; return d != &gpu; }
int nvmlDeviceGetPowerUsage(void* d, unsigned* mw) { *mw = 612500; return d != &gpu; }
int nvmlDeviceGetClockInfo(void* d, int kind, unsigned* mhz) { *mhz = 1755; return kind != 1; }
int nvmlDeviceGetTotalEccErrors(void* d, int kind, int counter, unsigned long long* n) { *n = 7; return 3; }
)";

TEST_CASE("a machine without NVML has a meter that reads nothing") {
  gpu_meter meter("0000:3b:00.0", "libthere-is-no-such-library.so");
  CHECK_FALSE(meter.works());
  CHECK(meter.read().empty());
}

TEST_CASE("what the GPU tells is read, in our units, and what it does not is left out") {
  std::string const source = "/tmp/fake_nvml.c", library = "/tmp/libfake_nvml.so";
  std::ofstream(source) << fake;
  if (std::system(("cc -shared -fPIC -w -o " + library + " " + source).c_str()) != 0) {
    MESSAGE("no C compiler here: skipped");
    return;
  }
  std::unique_ptr<void, int (*)(void*)> const stays(::dlopen(library.c_str(), RTLD_NOW), ::dlclose);
  auto const* const users = static_cast<int const*>(::dlsym(stays.get(), "users"));
  REQUIRE(users != nullptr);
  CHECK_FALSE(gpu_meter("0000:00:00.0", library).works());
  CHECK(*users == 0);
  std::vector<gpu_meter::reading> all;
  {
    gpu_meter meter("0000:3b:00.0", library);
    CHECK(*users == 0);  // until it is read
    REQUIRE(meter.works());
    all = meter.read();
    CHECK(meter.read() == all);
    CHECK(*users == 1);
  }
  CHECK(*users == 0);
  std::map<std::string, double> const got(all.begin(), all.end());
  std::map<std::string, double> const expected{
      {"device/utilisation", 0.87}, {"device/power_watts", 612.5}, {"device/sm_clock_mhz", 1755}};
  CHECK(got == expected);
}

}  // namespace gpu_meter_test
