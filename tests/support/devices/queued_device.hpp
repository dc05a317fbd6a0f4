// queued::device: a device with streams and events of its own (queued_stream.hpp), whose operations
// are those of the host, so that results have the host's bits.
#pragma once

#include <cstdint>
#include <memory>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/devices/queued_stream.hpp"

namespace queued {

/// Ranks that share a device share its threads. Its memory is host memory.
class device : private parallel::host::device {
 public:
  using stream_type = queued::stream;
  using parallel::host::device::allocate;
  using parallel::host::device::allocate_shared;
  using parallel::host::device::allocate_zeroed;
  using parallel::host::device::available_bytes;
  using parallel::host::device::bytes;
  using parallel::host::device::download;
  using parallel::host::device::host_reaches_memory;
  using parallel::host::device::peak_bytes;
  using parallel::host::device::upload;

  /// A device with `threads` threads; `seed` determines the order in which queues are drawn.
  explicit device(int threads = 1, std::uint64_t seed = 0)
      : engine_(std::make_shared<queued::engine>(threads, seed)) {}

  [[nodiscard]] std::shared_ptr<queued::engine> const& compute_options() const { return engine_; }
  [[nodiscard]] std::shared_ptr<queued::engine> const& comm_options() const { return engine_; }
  [[nodiscard]] queued::engine& engine() const { return *engine_; }

 private:
  std::shared_ptr<queued::engine> engine_;
};

/// Runs every operation of the host in the stream's order.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  s.compute([=](parallel::host::stream& arithmetic) { run_operation(arithmetic, a); });
}

}  // namespace queued
