// The devices that train in a build with Kokkos: those of devices.hpp and, on request, Kokkos, in
// float. CMake chooses between this file and no_kokkos/training_devices.hpp.
#pragma once

#include <array>
#include <cstdlib>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include <parallel/ops/kokkos.hpp>

#include "devices.hpp"

namespace apps {

/// Whether models are trained in bf16 on a device.
template <class Device>
inline constexpr bool trains_in_bf16 = !std::is_same_v<Device, parallel::kokkos::device>;

/// Initialises Kokkos for the life of the process; ranks that are threads share it. Its warnings
/// about the binding of threads are hidden; KOKKOS_DISABLE_WARNINGS=0 shows them.
inline void with_kokkos() {
  static parallel::kokkos::scope const of_this_process = [] {
    std::string program, quiet = "--kokkos-disable-warnings";
    std::array<char*, 3> arguments{program.data(), quiet.data(), nullptr};
    int count = std::getenv("KOKKOS_DISABLE_WARNINGS") == nullptr ? 2 : 1;
    return parallel::kokkos::scope(count, arguments.data());
  }();
}

/// Calls f(device, name of the device) with the requested device.
template <class F>
decltype(auto) with_training_device(device_request const& request, F&& f) {
  if (request.kind != "kokkos") return with_device(request, f);
  with_kokkos();
  return with_cpu(request, [&](parallel::host::device const& cpu, std::string const& name) {
    parallel::kokkos::device device(cpu.compute_options());
    parallel::kokkos::execution_space const space;
    return f(device,
             fmt::format("Kokkos {} ({} threads), {}", space.name(), space.concurrency(), name));
  });
}

}  // namespace apps
