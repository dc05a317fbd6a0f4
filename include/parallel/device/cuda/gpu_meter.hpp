// cuda::gpu_meter: measurements of a GPU's sensors by NVML, if its library is installed.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/device/cuda/nvml.hpp>

namespace parallel::cuda {

class gpu_meter {
 public:
  using reading = std::pair<std::string, double>;

  explicit gpu_meter(std::shared_ptr<nvml_device> device) : device_(std::move(device)) {}

  /// Names and values of all measurements that this GPU supports: "device/utilisation" (share of
  /// the last second in which a kernel ran), "device/power_watts", "device/sm_clock_mhz",
  /// "device/memory_clock_mhz", "device/temperature_celsius", "device/ecc_uncorrected" (errors
  /// since the driver started). Cost: some tens of microseconds; the first call is slower.
  [[nodiscard]] std::vector<reading> read() const {
    std::vector<reading> out;
    if (!device_->is_available()) return out;
    struct utilisation {
      unsigned gpu, memory;
    } busy{};
    if (device_->ask("nvmlDeviceGetUtilizationRates", &busy))
      out.emplace_back("device/utilisation", busy.gpu / 100.0);
    unsigned value = 0;
    if (device_->ask("nvmlDeviceGetPowerUsage", &value))
      out.emplace_back("device/power_watts", value / 1000.0);
    if (device_->ask("nvmlDeviceGetClockInfo", 1, &value))
      out.emplace_back("device/sm_clock_mhz", value);
    if (device_->ask("nvmlDeviceGetClockInfo", 2, &value))
      out.emplace_back("device/memory_clock_mhz", value);
    if (device_->ask("nvmlDeviceGetTemperature", 0, &value))
      out.emplace_back("device/temperature_celsius", value);
    if (auto const errors = uncorrected_errors(*device_))
      out.emplace_back("device/ecc_uncorrected", static_cast<double>(*errors));
    return out;
  }

 private:
  std::shared_ptr<nvml_device> device_;
};

}  // namespace parallel::cuda
