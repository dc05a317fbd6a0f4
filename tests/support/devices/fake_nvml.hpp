// A fake NVML library that follows the documentation: it has one GPU, without memory clocks.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include <parallel/device/cuda/nvml.hpp>

#include "parallel/support/files.hpp"

namespace test {

class fake_nvml {
 public:
  static constexpr char const* address = "0000:3b:00.0";

  /// Compiles the library if there is a C compiler; is_available() tells whether there is.
  fake_nvml() : library_((folder_ / "libfake_nvml.so").string()) {
    auto const file = (folder_ / "fake_nvml.c").string();
    std::ofstream(file) << source;
    if (std::system(("cc -shared -fPIC -w -o " + library_ + " " + file).c_str()) == 0)
      stays_.reset(::dlopen(library_.c_str(), RTLD_NOW));
  }
  [[nodiscard]] bool is_available() const { return stays_ != nullptr; }

  [[nodiscard]] std::shared_ptr<parallel::cuda::nvml_device> gpu(
      char const* pci_address = address) const {
    return std::make_shared<parallel::cuda::nvml_device>(pci_address, library_);
  }

  /// A variable of the library. Of type int: users, sets (event sets that are not freed), ecc
  /// (whether it counts errors), lost. Of type unsigned long long: errors, types (registered event
  /// types), refused (event types).
  template <class T>
  [[nodiscard]] T& state(char const* name) const {
    return *static_cast<T*>(::dlsym(stays_.get(), name));
  }
  /// Makes the driver report an event of this type.
  void report(unsigned long long type, unsigned long long data) const {
    reinterpret_cast<void (*)(unsigned long long, unsigned long long)>(
        ::dlsym(stays_.get(), "report"))(type, data);
  }

 private:
  static constexpr char const* source = R"(
#include <string.h>
typedef unsigned long long number;
static int gpu, set;
int users, sets, ecc, lost;
number errors, types, refused;
struct event { void* device; number type, data; unsigned gpu_instance, compute_instance; };
static struct event events[100];
static int head, tail;
void report(number type, number data) {
  struct event e = {&gpu, type, data, ~0u, ~0u};
  if (types & type) events[tail++ % 100] = e;
}
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
int nvmlDeviceGetTotalEccErrors(void* d, int kind, int counter, number* n) {
  *n = errors;
  return d == &gpu && kind == 1 && counter == 0 && ecc ? 0 : 3;
}
int nvmlEventSetCreate(void** out) { ++sets; *out = &set; return 0; }
int nvmlEventSetFree(void* s) { --sets; types = 0; head = tail; return s != &set; }
int nvmlDeviceRegisterEvents(void* d, number wanted, void* s) {
  if (d != &gpu || s != &set || (wanted & refused)) return 3;
  types = wanted;
  return 0;
}
int nvmlEventSetWait_v2(void* s, struct event* out, unsigned ms) {
  if (s != &set || ms != 0) return 2;
  if (lost) return 15;
  if (head == tail) return 10;
  *out = events[head++ % 100];
  return 0;
}
)";

  temporary_folder folder_;
  std::string library_;
  struct close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };
  std::unique_ptr<void, close> stays_;
};

}  // namespace test
