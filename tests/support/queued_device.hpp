// queued::device: a device whose streams and events are its own (queued_stream.hpp), and whose
// operations are the host's arithmetic: what it computes has the host's bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/queued_stream.hpp"

namespace queued {

/// Ranks that share one share its threads. Its memory is the host's.
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

  /// Of so many threads; `seed`: by which queues are drawn.
  explicit device(int threads = 1, std::uint64_t seed = 0)
      : engine_(std::make_shared<queued::engine>(threads, seed)) {}

  [[nodiscard]] std::shared_ptr<queued::engine> const& compute_options() const { return engine_; }
  [[nodiscard]] std::shared_ptr<queued::engine> const& comm_options() const { return engine_; }
  [[nodiscard]] queued::engine& engine() const { return *engine_; }

 private:
  std::shared_ptr<queued::engine> engine_;
};

/// Every operation of the host.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  s.compute([=](parallel::host::stream& on) { run_operation(on, a); });
}

}  // namespace queued
