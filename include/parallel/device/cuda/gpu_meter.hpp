// cuda::gpu_meter: what a GPU's own instruments say, by NVML, when its library is there.
//
// NVML comes with the driver, not with the toolkit; so it is looked for when a meter is first read,
// and a machine without it has a meter that reads nothing. Cost: some tens of milliseconds and a
// few open files the first time, some tens of microseconds a reading.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace parallel::cuda {

class gpu_meter {
 public:
  using reading = std::pair<std::string, double>;

  /// Of the GPU at a PCI address ("0000:3b:00.0"), by the library of this name.
  explicit gpu_meter(std::string pci_address, std::string library = "libnvidia-ml.so.1")
      : address_(std::move(pci_address)), name_(std::move(library)) {}

  gpu_meter(gpu_meter const&) = delete;
  gpu_meter& operator=(gpu_meter const&) = delete;

  /// Lets NVML close what it opened: a closed library leaves its files open.
  ~gpu_meter() {
    if (!started_) return;
    if (auto const stop = function<int()>("nvmlShutdown")) static_cast<void>(stop());
  }

  /// Whether there is something to read.
  [[nodiscard]] bool works() {
    std::call_once(opened_, [this] { open(); });
    return device_ != nullptr;
  }

  /// Name and value of everything this GPU tells: "device/utilisation" (share of the last second in
  /// which a kernel ran), "device/power_watts", "device/sm_clock_mhz", "device/memory_clock_mhz",
  /// "device/temperature_celsius", "device/ecc_uncorrected" (errors since the driver started).
  [[nodiscard]] std::vector<reading> read() {
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

  void open() {
    library_.reset(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library_) return;
    auto const start = function<int()>("nvmlInit_v2");
    auto const find = function<int(char const*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (start == nullptr || find == nullptr || start() != 0) return;
    started_ = true;
    if (find(address_.c_str(), &device_) != 0) device_ = nullptr;
  }

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

  std::string address_;
  std::string name_;
  std::once_flag opened_;
  std::unique_ptr<void, close_library> library_;
  bool started_ = false;
  void* device_ = nullptr;
};

}  // namespace parallel::cuda
