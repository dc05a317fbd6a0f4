// stepper_options: the choices of a training step, one for each strategy.
#pragma once

#include <cstddef>

#include <parallel/train/clipping.hpp>
#include <parallel/train/pipeline_options.hpp>
#include <parallel/zero/stage.hpp>

namespace parallel::train {

struct stepper_options {
  zero::stage stage = zero::stage::none;
  /// Reductions start when this many gradient bytes are complete (PyTorch DDP uses 25 MiB).
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// At stage parameters: values take turns in windows and are gathered for every pass that reads
  /// them. Else they are gathered once in a step, by its first forward pass, and stay until its
  /// end: memory for all of them beside the shards, and the traffic of stage gradients.
  bool reshard_after_forward = true;
  /// Of real gradients; exact rings are not clipped.
  clipping clip = {};
  /// What the canonical one cannot take: see canonical_order.hpp.
  zero::reduction_order order = zero::reduction_order::by_rank;
  /// Where what the optimizer alone uses lies.
  zero::optimizer_memory optimizer_memory = zero::optimizer_memory::device;
  /// Along the pipeline axis.
  pipeline_options pipeline = {};
};

}  // namespace parallel::train
