// Weight decay decoupled from the learning rate (Loshchilov, Hutter, 2019; LLM Foundry's form).
#pragma once

#include <parallel/core/config.hpp>

namespace parallel::ops::detail {

/// The factor by which an update multiplies a weight: 1 - lr/initial_lr * weight_decay. The decay
/// is scaled by the schedule alone, not by the learning rate itself; with an initial_lr of 0 it is
/// not scaled at all.
[[nodiscard]] constexpr double decoupled_decay(double lr, double initial_lr, double weight_decay) {
  if (weight_decay == 0.0) return 1.0;
  return 1.0 - (initial_lr == 0.0 ? 1.0 : lr / initial_lr) * weight_decay;
}

}  // namespace parallel::ops::detail
