// The devices of a build without the CUDA Toolkit. CMake chooses between this file and
// cuda/devices.hpp.
#pragma once

#include <parallel/core/error.hpp>
#include <parallel/ops/host.hpp>

#include <devices/device_request.hpp>

namespace apps {

/// Calls f(device, name of the device) with the requested device.
template <class F>
decltype(auto) with_device(device_request const& request, F&& f) {
  parallel::require(request.kind != "cuda",
                    "device=cuda: this program was built without CUDA; install the CUDA Toolkit 13 "
                    "or newer and build again, or use device=cpu");
  return with_cpu(request, f);
}

/// The number of this machine's GPUs that this program can use.
[[nodiscard]] inline int gpus() { return 0; }

}  // namespace apps
