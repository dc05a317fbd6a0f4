// reserve_scratch: allocates a stream's scratch memory before operations are enqueued.
#pragma once

#include <cstddef>

#include <parallel/device/meta/device.hpp>

namespace parallel {

/// Allocates `bytes` of scratch memory for the operations on `s`: operations that need at most that
/// much do not allocate. Does nothing for streams whose operations use no scratch memory of the
/// device. Throws `out_of_memory` if there is not enough memory; then nothing has changed.
template <class Stream>
void reserve_scratch(Stream& s, std::size_t bytes) {
  if constexpr (requires { s.reserve_scratch(bytes); }) s.reserve_scratch(bytes);
}

/// Also allocates the small blocks that the host shares with the device (device.reserve_shared()).
template <class Stream, class Device>
void reserve_scratch(Stream& s, std::size_t bytes, Device const& device) {
  if constexpr (requires { device.reserve_shared(); }) device.reserve_shared();
  reserve_scratch(s, bytes);
}

/// Options of the meta stream on which the operations of a device's streams are planned.
template <class Device>
[[nodiscard]] meta::stream_options planning_stream_options(Device const& device) {
  if constexpr (requires { device.compute_options().deterministic; })
    return {.deterministic = device.compute_options().deterministic};
  else
    return {};
}

}  // namespace parallel
