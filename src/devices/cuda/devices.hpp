// The devices of a build with the CUDA Toolkit: the CPU, and a GPU if there is one. CMake chooses
// between this file and cpu/devices.hpp.
#pragma once

#include <fmt/format.h>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/cuda/fault_watch.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/host.hpp>

#include <devices/device_request.hpp>
#include <process/process.hpp>

/// A symbol that only the fake CUDA runtime of the tests defines.
extern "C" [[gnu::weak]] int const parallellm_fake_cuda_runtime;

namespace apps {

/// The number of this machine's GPUs that this program can use. Throws `error` if the CUDA runtime
/// is the fake one.
[[nodiscard]] inline int gpus() {
  parallel::require(
      &parallellm_fake_cuda_runtime == nullptr,
      "the CUDA runtime of this process is the fake one of ParallelLM's tests, which "
      "computes nothing on a GPU; link with, or preload, the CUDA Toolkit's libcudart");
  return parallel::cuda::device::count();
}

/// Calls f(device, name of the device) with the requested device.
template <class F>
decltype(auto) with_device(device_request const& request, F&& f) {
  int const found = gpus();
  if (request.kind == "cpu" || (request.kind == "auto" && found == 0)) return with_cpu(request, f);
  parallel::require(found > 0,
                    "device=cuda: no GPU can be used here (nvidia-smi says why); use "
                    "device=cpu");
  int const ordinal = request.local_rank % found;
  parallel::cuda::device device(
      {.device = ordinal, .deterministic = request.deterministic, .graphs = request.graphs});
  parallel::cuda::fault_watch faults(device.watch_faults(), [ordinal](std::string const& text) {
    print_note(
        fmt::format("GPU {} itself reports since this program began: {} (the kernel's log, "
                    "dmesg, has more)",
                    ordinal, text));
  });
  try {
    return f(device, fmt::format("GPU {}, {}", ordinal, device.name()));
  } catch (...) {
    faults.poll();
    throw;
  }
}

}  // namespace apps
