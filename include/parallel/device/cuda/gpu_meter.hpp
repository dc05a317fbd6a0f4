// cuda::gpu_meter: what a GPU's own instruments say, by NVML, when its library is there.
//
// NVML comes with the driver, not with the toolkit; so it is opened when a meter is made, and a
// machine without it has a meter that reads nothing. Cost of a reading: some tens of microseconds.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace parallel::cuda {

class gpu_meter {
 public:
  using reading = std::pair<std::string, double>;

  /// Of the GPU at a PCI address ("0000:3b:00.0"), by the library of this name.
  explicit gpu_meter(std::string const& pci_address, char const* library = "libnvidia-ml.so.1")
      : library_(::dlopen(library, RTLD_NOW | RTLD_LOCAL), close_library{}) {
    if (!library_) return;
    auto const start = function<int()>("nvmlInit_v2");
    auto const find = function<int(char const*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (start == nullptr || find == nullptr || start() != 0) return;
    if (find(pci_address.c_str(), &device_) != 0) device_ = nullptr;
  }

  /// Whether there is something to read.
  [[nodiscard]] bool works() const { return device_ != nullptr; }

  /// Name and value of everything this GPU tells: "device/utilisation" (share of the last second in
  /// which a kernel ran), "device/power_watts", "device/sm_clock_mhz", "device/memory_clock_mhz",
  /// "device/temperature_celsius", "device/ecc_uncorrected" (errors since the driver started).
  [[nodiscard]] std::vector<reading> read() const {
    std::vector<reading> out;
    if (!works()) return out;
    struct utilisation {
      unsigned gpu, memory;
    } busy{};
    if (call("nvmlDeviceGetUtilizationRates", &busy))
      out.emplace_back("device/utilisation", busy.gpu / 100.0);
    unsigned value = 0;
    if (call("nvmlDeviceGetPowerUsage", &value))
      out.emplace_back("device/power_watts", value / 1000.0);
    if (call("nvmlDeviceGetClockInfo", 1, &value)) out.emplace_back("device/sm_clock_mhz", value);
    if (call("nvmlDeviceGetClockInfo", 2, &value))
      out.emplace_back("device/memory_clock_mhz", value);
    if (call("nvmlDeviceGetTemperature", 0, &value))
      out.emplace_back("device/temperature_celsius", value);
    unsigned long long errors = 0;
    constexpr int uncorrected = 1, volatile_counter = 0;
    if (call("nvmlDeviceGetTotalEccErrors", uncorrected, volatile_counter, &errors))
      out.emplace_back("device/ecc_uncorrected", static_cast<double>(errors));
    return out;
  }

 private:
  struct close_library {
    void operator()(void* handle) const { static_cast<void>(::dlclose(handle)); }
  };

  template <class F>
  [[nodiscard]] F* function(char const* name) const {
    return reinterpret_cast<F*>(::dlsym(library_.get(), name));
  }

  /// Calls a function of the library for the GPU; false when it is missing or says no.
  template <class... Arguments>
  [[nodiscard]] bool call(char const* name, Arguments... arguments) const {
    auto const f = function<int(void*, Arguments...)>(name);
    return f != nullptr && f(device_, arguments...) == 0;
  }

  std::unique_ptr<void, close_library> library_;
  void* device_ = nullptr;
};

}  // namespace parallel::cuda
