// program_costs: how much longer a training program takes for its work than the rates of a cluster
// say.
//
// This library's own factors are all 1, and its exchanges run beside its computations. Programs
// that others wrote compute more bytes for the same operation (one kernel for each elementary
// function), use other attention kernels, start more kernels, or wait for their exchanges.
#pragma once

#include <parallel/core/config.hpp>

namespace parallel::cluster {

struct program_costs {
  double products = 1;   ///< factor of the time of matrix products
  double attention = 1;  ///< of attention
  double elements = 1;   ///< of all other operations
  double axes = 1;       ///< of exchanges within passes, along tensor and context
  double gap = 0;        ///< seconds that each operation takes longer, as several kernels do
  /// Whether exchanges of tensor regions are cut into shards that overlap with their products
  /// (tensor/overlapped.hpp); if not, products are whole and wait for their exchanges.
  bool overlaps_regions = true;
  bool has_fp8_blocks = false;  ///< products of the blocks are in fp8, those of the head are not
  /// Part of the time of the exchanges of gradients and values that is added to the step; 0: they
  /// run beside its computations wherever the step's plan lets them.
  double exposed_exchanges = 0;
};

}  // namespace parallel::cluster
