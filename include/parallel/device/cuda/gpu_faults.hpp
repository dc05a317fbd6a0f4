// cuda::gpu_faults: faults of a GPU while it is watched: the driver's critical errors (Xid) and
// memory errors that ECC could not correct. They come from NVML, if its library is installed.
//
// On broken hardware a kernel hangs, or fails with CUDA's message for a wrong program ("illegal
// address", "launch failure"). The faults tell the two apart. Numbers and meanings: NVIDIA, "Xid
// Errors", docs.nvidia.com/deploy/xid-errors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/device/cuda/nvml.hpp>

namespace parallel::cuda {

/// The meaning of an Xid that ends trainings, and its cause or remedy; empty for other numbers.
[[nodiscard]] constexpr std::string_view meaning_of_xid(unsigned long long xid) {
  switch (xid) {
    case 13: return "an exception in a kernel, usually an error of the program";
    case 31: return "an access to memory that is not mapped, usually an error of the program";
    case 43: return "a kernel was ended, usually because of an error of the program";
    case 45: return "work was ended because of an earlier error";
    case 48: return "a memory error of two bits; drain the machine";
    case 63: return "a row of memory was replaced; reset the GPU when the run is over";
    case 64: return "a row of memory could not be replaced; drain the machine";
    case 74: return "NVLink failed; look at the links and switches";
    case 79: return "the GPU has fallen off the bus; drain the machine";
    case 92: return "many memory errors of one bit; the GPU may soon fail";
    case 94: return "a memory error that hit this program alone; start again";
    case 95: return "a memory error that may have hit other programs; reset the GPU";
    case 119:
    case 120: return "the GPU's system processor does not answer; reset the GPU";
    default: return {};
  }
}

class gpu_faults {
 public:
  /// Begins to collect faults, as far as NVML supports it.
  explicit gpu_faults(std::shared_ptr<nvml_device> device) : device_(std::move(device)) {
    if (!device_->is_available()) return;
    errors_ = uncorrected_errors(*device_).value_or(0);
    constexpr unsigned long long critical = 0x8, double_bit = 0x2;
    void* set = nullptr;
    if (device_->call("nvmlEventSetCreate", &set) != nvml_device::success) return;
    events_ = {set, [nvml = device_](void* event_set) {
                 static_cast<void>(nvml->call("nvmlEventSetFree", event_set));
               }};
    // some GPUs have no memory with ECC
    if (!device_->ask("nvmlDeviceRegisterEvents", critical | double_bit, set) &&
        !device_->ask("nvmlDeviceRegisterEvents", critical, set))
      events_ = nullptr;
  }

  /// The faults since the last call, such as "Xid 79 (the GPU has fallen off the bus; drain the
  /// machine), 2 uncorrected memory errors"; empty if there are none. Does not wait.
  [[nodiscard]] std::string take() {
    std::string text;
    if (!device_->is_available()) return text;
    auto const add = [&text](auto const&... words) {
      text += concat(text.empty() ? "" : ", ", words...);
    };
    struct event_data {  // nvmlEventData_t
      void* device;
      unsigned long long type, data;
      unsigned gpu_instance, compute_instance;
    } event{};
    int status = nvml_device::success;
    unsigned long long last_xid = 0;
    for (int count = 0; events_ != nullptr && count < max_events; ++count) {
      status = device_->call("nvmlEventSetWait_v2", events_.get(), &event, /*milliseconds=*/0U);
      if (status != nvml_device::success) break;
      if (event.type != 0x8 || event.data == last_xid) continue;
      last_xid = event.data;
      auto const meaning = meaning_of_xid(last_xid);
      add("Xid ", last_xid, meaning.empty() ? "" : " (", meaning, meaning.empty() ? "" : ")");
    }
    if (status == nvml_device::lost) add("NVML has lost the GPU");
    if (auto const total = uncorrected_errors(*device_); total && *total > errors_) {
      add(*total - errors_,
          *total - errors_ == 1 ? " uncorrected memory error" : " uncorrected memory errors");
      errors_ = *total;
    }
    return text;
  }

 private:
  static constexpr int max_events = 64;  // per call of take: a broken GPU may repeat its errors

  std::shared_ptr<nvml_device> device_;
  std::shared_ptr<void> events_;
  unsigned long long errors_ = 0;
};

}  // namespace parallel::cuda
