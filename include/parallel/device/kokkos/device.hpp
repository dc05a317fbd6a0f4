// kokkos::device: the host's memory, computed on by what Kokkos makes of the host.
//
// Execution spaces of the host reach the memory that the host's device gives out, so that this is
// that device, but for its streams. For portability, not speed: docs/kokkos.md.
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
