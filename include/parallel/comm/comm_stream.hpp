// comm_stream: on which streams the exchanges of a device's memory over a communicator run.
#pragma once

#include <concepts>
#include <memory>

#include <parallel/comm/concepts.hpp>
#include <parallel/device/concepts.hpp>

namespace parallel {

/// For memory of `Device` and communicators that enqueue on a `Stream`: `type` can be given to them
/// as their stream_type, and is made of `options(device)`. As it stands for communicators whose
/// streams reach the device's memory by themselves; others specialise it.
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

/// The streams of a pair.
template <class Device, communicator Comm>
using comm_stream = typename comm_stream_of<Device, typename Comm::stream_type>::type;

/// What they are made of.
template <communicator Comm, device Device>
[[nodiscard]] auto comm_options(Device const& device) {
  return comm_stream_of<Device, typename Comm::stream_type>::options(device);
}

/// A function that makes one.
template <communicator Comm, device Device>
[[nodiscard]] auto maker_of_comm_streams(Device const& device) {
  return [options = comm_options<Comm>(device)] {
    return std::make_shared<comm_stream<Device, Comm>>(options);
  };
}

}  // namespace parallel
