// traffic_of: on which streams the exchanges of a device's memory run.
#pragma once

#include <parallel/device/host/stream.hpp>

namespace parallel {

/// `type` can be given to communicators as their stream_type; it is made of `options(device)`. For
/// devices whose memory the CPU reaches: a stream of the host. Others specialise it.
template <class Device>
struct traffic_of {
  using type = host::stream;
  [[nodiscard]] static host::stream_options options(Device const& device) {
    return device.traffic_options();
  }
};

template <class Device>
using traffic_type = typename traffic_of<Device>::type;

}  // namespace parallel
