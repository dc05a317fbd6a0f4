// exchanged_memory: allocation of memory that ranks exchange during its whole life.
//
// A network or another GPU accesses memory in place only if the communication library allocated it.
// So a device can be given a source for such memory. A device without this facility allocates
// ordinary memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <parallel/device/buffer.hpp>

namespace parallel {

/// The source from which a device takes exchanged memory.
struct memory_source {
  /// Allocates memory of the current device, aligned as the device aligns; `bytes` is at least 1.
  /// Returns null if there is not enough.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  /// Buffers for smaller exchanges are ordinary memory of the device.
  std::size_t min_bytes = 0;
};

/// Zeroed memory for `count` elements. The largest buffer that takes part in their exchanges has
/// `exchanged_count` elements. Both numbers must be equal on all ranks that exchange.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count,
                                           std::size_t exchanged_count) {
  if constexpr (requires { device.template allocate_exchanged<T>(count, exchanged_count); })
    return device.template allocate_exchanged<T>(count, exchanged_count);
  else
    return device.template allocate_zeroed<T>(count);
}

/// Zeroed memory for `count` elements that are exchanged with buffers of the same size.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count) {
  return allocate_exchanged<T>(device, count, count);
}

}  // namespace parallel
