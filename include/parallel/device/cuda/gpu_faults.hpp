// cuda::gpu_faults: what went wrong with a GPU while it was watched: the driver's critical errors
// (Xid) and memory errors that ECC could not correct, by NVML, when its library is there.
//
// A kernel that fails on broken hardware fails with CUDA's words for a wrong program ("illegal
// address", "launch failure"), or hangs; what tells the two apart is here. Numbers and meanings:
// NVIDIA, "Xid Errors", docs.nvidia.com/deploy/xid-errors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/device/cuda/nvml.hpp>

namespace parallel::cuda {

/// What an Xid stands for and whose fault it is, of those that end trainings; empty: of others.
[[nodiscard]] constexpr std::string_view meaning_of_xid(unsigned long long xid) {
  switch (xid) {
    case 13: return "an exception in a kernel, mostly of the program";
    case 31: return "an access to memory that is not mapped, mostly of the program";
    case 43: return "a kernel was ended, mostly for an error of the program";
    case 45: return "work was ended after an error before";
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
  /// From now on, as far as NVML tells.
  explicit gpu_faults(std::shared_ptr<nvml_device> of) : of_(std::move(of)) {
    if (!of_->works()) return;
    errors_ = uncorrected_errors(*of_).value_or(0);
    constexpr unsigned long long critical = 0x8, double_bit = 0x2;
    void* set = nullptr;
    if (of_->call("nvmlEventSetCreate", &set) != nvml_device::success) return;
    events_ = {
        set, [nvml = of_](void* made) { static_cast<void>(nvml->call("nvmlEventSetFree", made)); }};
    // some GPUs have no memory with ECC
    if (!of_->ask("nvmlDeviceRegisterEvents", critical | double_bit, set) &&
        !of_->ask("nvmlDeviceRegisterEvents", critical, set))
      events_ = nullptr;
  }

  /// "Xid 79 (the GPU has fallen off the bus; drain the machine), 2 uncorrected memory errors":
  /// what has happened since it was last asked; empty: nothing. Does not wait.
  [[nodiscard]] std::string take() {
    std::string out;
    if (!of_->works()) return out;
    auto const add = [&out](auto const&... words) {
      out += concat(out.empty() ? "" : ", ", words...);
    };
    struct reported {  // nvmlEventData_t
      void* device;
      unsigned long long type, data;
      unsigned gpu_instance, compute_instance;
    } one{};
    int said = nvml_device::success;
    unsigned long long last = 0;
    for (int count = 0; events_ != nullptr && count < most_events; ++count) {
      said = of_->call("nvmlEventSetWait_v2", events_.get(), &one, /*milliseconds=*/0U);
      if (said != nvml_device::success) break;
      if (one.type != 0x8 || one.data == last) continue;
      last = one.data;
      auto const meaning = meaning_of_xid(last);
      add("Xid ", last, meaning.empty() ? "" : " (", meaning, meaning.empty() ? "" : ")");
    }
    if (said == nvml_device::lost) add("NVML has lost it");
    if (auto const now = uncorrected_errors(*of_); now && *now > errors_) {
      add(*now - errors_,
          *now - errors_ == 1 ? " uncorrected memory error" : " uncorrected memory errors");
      errors_ = *now;
    }
    return out;
  }

 private:
  static constexpr int most_events = 64;  // of one answer: a broken GPU may repeat its errors

  std::shared_ptr<nvml_device> of_;
  std::shared_ptr<void> events_;
  unsigned long long errors_ = 0;
};

}  // namespace parallel::cuda
