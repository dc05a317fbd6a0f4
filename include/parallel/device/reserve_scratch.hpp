// reserve_scratch: a stream's scratch memory for operations, taken before they are enqueued.
#pragma once

#include <cstddef>

#include <parallel/device/meta/device.hpp>

namespace parallel {

/// From now on operations on `s` that need at most so many bytes of scratch find them there. Does
/// nothing where a stream's operations take none of its device's memory. Throws `out_of_memory`
/// where there is not enough, and nothing has changed then.
template <class Stream>
void reserve_scratch(Stream& s, std::size_t bytes) {
  if constexpr (requires { s.reserve_scratch(bytes); }) s.reserve_scratch(bytes);
}

/// And what the host shares with the device, of few numbers.
template <class Stream, class Device>
void reserve_scratch(Stream& s, std::size_t bytes, Device const& device) {
  if constexpr (requires { device.reserve_shared(); }) device.reserve_shared();
  reserve_scratch(s, bytes);
}

/// How operations on the streams of a device are planned.
template <class Device>
[[nodiscard]] meta::stream_options planned_streams(Device const& device) {
  if constexpr (requires { device.compute_options().deterministic; })
    return {.deterministic = device.compute_options().deterministic};
  else
    return {};
}

}  // namespace parallel
