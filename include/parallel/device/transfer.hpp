// transfer: reads and writes a device's memory from the host, in place if the host reaches it.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel {

/// Whether the host can read and write the memory of Device in place.
template <class Device>
inline constexpr bool host_reaches = std::remove_const_t<Device>::host_reaches_memory;

/// Calls read(span) with a span of host memory that holds a copy of `elements`, or with `elements`
/// itself. Blocks. Nothing may write the elements meanwhile.
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

/// Calls write(span) with a span of host memory to be filled, and copies it to `elements` if the
/// span is not `elements` itself. Blocks. Nothing else may use the elements meanwhile.
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
