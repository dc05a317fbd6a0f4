// stepper_options: the choices of a training step, one for each strategy.
#pragma once

#include <cstddef>
#include <optional>

#include <parallel/train/clipping.hpp>
#include <parallel/train/pipeline_options.hpp>
#include <parallel/zero/level.hpp>

namespace parallel::train {

struct stepper_options {
  zero::level level = zero::level::none;
  /// Reductions start when this many gradient bytes are complete (PyTorch DDP uses 25 MiB).
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// At level parameters: values are gathered into shared unsharded buffers for every pass that
  /// reads them. If false, they are gathered once in a step, by its first forward pass, and stay
  /// until its end: memory for all of them in addition to the shards, and the exchanges of level
  /// gradients.
  bool reshard_after_forward = true;
  /// From level gradients on: gradients are reduced after every microbatch, and a rank keeps its
  /// shards of them. If false, they are added up in whole buffers and reduced once, as at level
  /// optimizer: memory for all of them, and an exchange less for every further microbatch. Sums of
  /// floats are then taken over microbatches first.
  bool reduce_every_microbatch = true;
  /// Values that are held whole and were updated by other ranks are gathered by the next step, each
  /// before the first pass that reads it and hidden behind earlier passes, and not at the end of
  /// their own step. A caller that reads values between steps calls stepper::gather_values first.
  bool gather_before_use = false;
  /// A step is enqueued in an order in which it does not deadlock where the device now and then
  /// waits for all work that it was given before, on whatever stream: as CUDA does when a kernel is
  /// first launched and loaded, where streams share one of its queues
  /// (CUDA_DEVICE_MAX_CONNECTIONS), and between kernels with CUDA_LAUNCH_BLOCKING=1. If false,
  /// receives are enqueued as early as there is memory, which is sooner where the host itself
  /// computes. If absent, the device decides (Device::waits_for_all_streams).
  std::optional<bool> one_queue = {};
  /// Clipping of real gradients; exact rings are not clipped.
  clipping clip = {};
  /// A step whose loss or gradient is not finite updates nothing (step_result::outcome). The host
  /// waits for the sums in every step, also where it need not otherwise.
  bool keep_finite = false;
  /// canonical_order.hpp says which layouts the canonical order refuses.
  zero::reduction_order order = zero::reduction_order::by_rank;
  /// bf16: for gradients in float, and not with the canonical order, which rounds nowhere.
  zero::reduce_dtype reduce_dtype = zero::reduce_dtype::full;
  /// The memory that holds what only the optimizer uses.
  zero::optimizer_memory optimizer_memory = zero::optimizer_memory::device;
  /// Options of the pipeline axis.
  pipeline_options pipeline = {};
};

/// Whether devices of this kind now and then wait for all work that they were given.
template <class Device>
inline constexpr bool waits_for_all_streams = [] {
  if constexpr (requires { Device::waits_for_all_streams; })
    return Device::waits_for_all_streams;
  else
    return false;
}();

/// These options with the choices of this kind of device filled in.
template <class Device>
[[nodiscard]] stepper_options on_device(stepper_options options) {
  if (!options.one_queue) options.one_queue = waits_for_all_streams<Device>;
  return options;
}

}  // namespace parallel::train
