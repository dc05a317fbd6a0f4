// cuda::gpu_meter: what a GPU's own instruments say, by NVML, when its library is there.
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

  explicit gpu_meter(std::shared_ptr<nvml_device> of) : of_(std::move(of)) {}

  /// Name and value of everything this GPU tells: "device/utilisation" (share of the last second in
  /// which a kernel ran), "device/power_watts", "device/sm_clock_mhz", "device/memory_clock_mhz",
  /// "device/temperature_celsius", "device/ecc_uncorrected" (errors since the driver started). Some
  /// tens of microseconds, but for the first time.
  [[nodiscard]] std::vector<reading> read() const {
    std::vector<reading> out;
    if (!of_->works()) return out;
    struct utilisation {
      unsigned gpu, memory;
    } busy{};
    if (of_->ask("nvmlDeviceGetUtilizationRates", &busy))
      out.emplace_back("device/utilisation", busy.gpu / 100.0);
    unsigned value = 0;
    if (of_->ask("nvmlDeviceGetPowerUsage", &value))
      out.emplace_back("device/power_watts", value / 1000.0);
    if (of_->ask("nvmlDeviceGetClockInfo", 1, &value))
      out.emplace_back("device/sm_clock_mhz", value);
    if (of_->ask("nvmlDeviceGetClockInfo", 2, &value))
      out.emplace_back("device/memory_clock_mhz", value);
    if (of_->ask("nvmlDeviceGetTemperature", 0, &value))
      out.emplace_back("device/temperature_celsius", value);
    if (auto const errors = uncorrected_errors(*of_))
      out.emplace_back("device/ecc_uncorrected", static_cast<double>(*errors));
    return out;
  }

 private:
  std::shared_ptr<nvml_device> of_;
};

}  // namespace parallel::cuda
