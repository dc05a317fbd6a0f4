// The devices that train in a build with Kokkos: those of devices.hpp, and Kokkos when it is asked
// for, in float. Its twin is no_kokkos/training_devices.hpp; CMake chooses.
#pragma once

#include <type_traits>

#include <parallel/ops/kokkos.hpp>

#include "devices.hpp"

namespace apps {

/// Whether models are trained in bf16 on a device.
template <class Device>
inline constexpr bool trains_in_bf16 = !std::is_same_v<Device, parallel::kokkos::device>;

/// Calls f(device, what it is called) with the device that is asked for.
template <class F>
decltype(auto) with_training_device(device_request const& request, F&& f) {
  if (request.kind != "kokkos") return with_device(request, f);
  static Kokkos::ScopeGuard const of_this_process;  // which ranks that are threads share
  return with_cpu(request, [&](parallel::host::device const& cpu, std::string const& name) {
    parallel::kokkos::device device(cpu.compute_options());
    return f(device, fmt::format("{}, Kokkos {}", name, parallel::kokkos::execution_space::name()));
  });
}

}  // namespace apps
