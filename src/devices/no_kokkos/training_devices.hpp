// The devices that train in a build without Kokkos. CMake chooses between this file and
// kokkos/training_devices.hpp.
#pragma once

#include <parallel/core/error.hpp>

#include "devices.hpp"

namespace apps {

/// Whether models are trained in bf16 on a device.
template <class Device>
inline constexpr bool trains_in_bf16 = true;

/// Calls f(device, name of the device) with the requested device.
template <class F>
decltype(auto) with_training_device(device_request const& request, F&& f) {
  parallel::require(request.kind != "kokkos",
                    "device=kokkos: this program was built without Kokkos; install "
                    "libtrilinos-kokkos-dev or Kokkos 4 and build again, or use device=cpu");
  return with_device(request, f);
}

}  // namespace apps
