// comm_stream: the type of stream on which a communicator exchanges a device's memory.
#pragma once

#include <concepts>
#include <memory>

#include <parallel/comm/concepts.hpp>
#include <parallel/device/concepts.hpp>

namespace parallel {

/// For memory of `Device` and communicators that enqueue on a `Stream`: `type` is a stream that
/// such a communicator accepts as its stream_type, constructed from `options(device)`. The primary
/// template serves communicators whose streams reach the device's memory; others specialise it.
template <class Device, stream Stream>
struct comm_stream_of {
  using type = Stream;

  [[nodiscard]] static auto options(Device const& device) {
    static_assert(std::constructible_from<Stream, decltype(device.comm_options())>,
                  "no stream of this communicator is known to reach the memory of this device; "
                  "include the header that connects the two, or specialise comm_stream_of");
    return device.comm_options();
  }
};

/// The stream for one device and one communicator.
template <class Device, communicator Comm>
using comm_stream = typename comm_stream_of<Device, typename Comm::stream_type>::type;

/// The arguments of its constructor.
template <communicator Comm, device Device>
[[nodiscard]] auto comm_options(Device const& device) {
  return comm_stream_of<Device, typename Comm::stream_type>::options(device);
}

/// A function that makes a new communication stream.
template <communicator Comm, device Device>
[[nodiscard]] auto comm_stream_factory(Device const& device) {
  return [options = comm_options<Comm>(device)] {
    return std::make_shared<comm_stream<Device, Comm>>(options);
  };
}

}  // namespace parallel
