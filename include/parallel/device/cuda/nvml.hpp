// cuda::nvml_device: a GPU's handle in NVML, if NVML's library is installed.
//
// NVML comes with the driver, not with the toolkit, so its library is loaded at the first use. On a
// machine without NVML, is_available() is false. Cost: some tens of milliseconds and a few open
// files at the first use.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// A GPU in NVML.
class nvml_device {
 public:
  /// Values of NVML's nvmlReturn_t, and `missing` for a function that the library does not have.
  static constexpr int success = 0, lost = 15, missing = -1;

  /// The GPU at a PCI address ("0000:3b:00.0"), through the library of this name.
  explicit nvml_device(std::string pci_address, std::string library = "libnvidia-ml.so.1")
      : address_(std::move(pci_address)), name_(std::move(library)) {}

  nvml_device(nvml_device&&) = delete;

  /// Calls nvmlShutdown: dlclose alone would leave NVML's files open.
  ~nvml_device() {
    if (started_) static_cast<void>(call("nvmlShutdown"));
  }

  [[nodiscard]] std::string const& address() const { return address_; }

  /// Whether NVML is installed and knows the GPU.
  [[nodiscard]] bool is_available() {
    std::call_once(opened_, [this] { open(); });
    return device_ != nullptr;
  }

  /// Calls a function of the library; returns `missing` if it has none of this name.
  template <class... Arguments>
  [[nodiscard]] int call(char const* name, Arguments... arguments) const {
    if (!library_) return missing;
    auto const f = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_.get(), name));
    return f == nullptr ? missing : f(arguments...);
  }

  /// Calls a function of the library for this GPU; false if the function is missing or fails.
  template <class... Arguments>
  [[nodiscard]] bool ask(char const* name, Arguments... arguments) const {
    return call(name, device_, arguments...) == success;
  }

 private:
  struct close_library {
    void operator()(void* handle) const { static_cast<void>(::dlclose(handle)); }
  };

  void open() {
    library_.reset(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library_ || call("nvmlInit_v2") != success) return;
    started_ = true;
    if (call("nvmlDeviceGetHandleByPciBusId_v2", address_.c_str(), &device_) != success)
      device_ = nullptr;
  }

  std::string address_;
  std::string name_;
  std::once_flag opened_;
  std::unique_ptr<void, close_library> library_;
  bool started_ = false;
  void* device_ = nullptr;
};

/// The memory errors since the driver started that ECC has detected and not corrected; nullopt if
/// the GPU does not report them.
[[nodiscard]] inline std::optional<unsigned long long> uncorrected_errors(
    nvml_device const& device) {
  constexpr int uncorrected = 1, since_driver = 0;
  unsigned long long count = 0;
  if (!device.ask("nvmlDeviceGetTotalEccErrors", uncorrected, since_driver, &count))
    return std::nullopt;
  return count;
}

}  // namespace parallel::cuda
