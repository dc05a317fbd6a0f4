// program_costs: how much longer a training program takes for its work than the rates of a cluster
// say.
//
// This library's own costs are all 1, and its exchanges run beside its computations. Programs that
// others wrote compute more bytes for the same operation (one kernel for each elementary function),
// use other attention kernels, or wait for their exchanges.
#pragma once

#include <parallel/core/config.hpp>

namespace parallel::cluster {

struct program_costs {
  double products = 1;   ///< factor of the time of matrix products
  double attention = 1;  ///< of attention
  double elements = 1;   ///< of all other operations
  double axes = 1;       ///< of exchanges within passes, along tensor and context
  /// Part of the time of the exchanges of gradients and values that is added to the step; 0: they
  /// run beside its computations wherever the step's plan lets them.
  double exposed_exchanges = 0;
};

}  // namespace parallel::cluster
