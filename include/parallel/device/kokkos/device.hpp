// kokkos::device: the host's memory, with streams whose operations Kokkos runs.
//
// Kokkos's execution spaces of the host reach the memory of host::device. So this device differs
// from host::device only in its streams. It is for portability, not speed: docs/kokkos.md.
#pragma once

#include <parallel/device/host/device.hpp>
#include <parallel/device/kokkos/stream.hpp>

namespace parallel::kokkos {

class device : public host::device {
 public:
  using stream_type = kokkos::stream;
  using host::device::device;
};

}  // namespace parallel::kokkos
