// Reading and writing a device's memory from the host, in place where the host reaches it.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel {

/// Whether the host reads and writes the memory of Device by itself; the device says so.
template <class Device>
inline constexpr bool host_reaches = std::remove_const_t<Device>::host_reaches_memory;

/// Calls read(elements) with a span of host memory that equals `elements`, of the device's. Blocks;
/// nothing may be writing them.
template <class Device, class T, class Read>
void read_on_host(Device const& device, std::span<T> elements, Read&& read) {
  if constexpr (host_reaches<Device>) {
    read(std::span<T const>(elements));
  } else {
    std::vector<std::remove_const_t<T>> copy(elements.size());
    device.download(std::span(copy), std::span<T const>(elements));
    read(std::span<T const>(copy));
  }
}

/// Calls write(elements) with a span of host memory to be filled, which becomes `elements` of the
/// device's. Blocks; nothing else may be using them.
template <class Device, class T, class Write>
void write_from_host(Device const& device, std::span<T> elements, Write&& write) {
  if constexpr (host_reaches<Device>) {
    write(elements);
  } else {
    std::vector<T> copy(elements.size());
    write(std::span<T>(copy));
    device.upload(elements, std::span<T const>(copy));
  }
}

}  // namespace parallel
