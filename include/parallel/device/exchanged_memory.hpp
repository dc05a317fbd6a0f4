// Memory that ranks exchange for as long as it is there: a communicator may have wishes about where
// it lies.
//
// A network, or another GPU, reads and writes in place only what its library has allocated. So a
// device can be told where to take such memory from; one that cannot gives what it gives always.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <parallel/device/buffer.hpp>

namespace parallel {

/// Where a device takes exchanged memory from.
struct memory_source {
  /// So many bytes, at least one, of the device that is current, aligned as its own; null: there
  /// are not as many.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  /// What is exchanged with less is the device's own.
  std::size_t least_bytes = 0;
};

/// Zeroed memory for `count` elements, which are exchanged with buffers of at most `whole`; both
/// are the same on all ranks that exchange them.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count, std::size_t whole) {
  if constexpr (requires { device.template allocate_exchanged<T>(count, whole); })
    return device.template allocate_exchanged<T>(count, whole);
  else
    return device.template allocate_zeroed<T>(count);
}

/// Zeroed memory for `count` elements that are exchanged with buffers of as many.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count) {
  return allocate_exchanged<T>(device, count, count);
}

}  // namespace parallel
