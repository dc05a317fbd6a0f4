// Weight decay decoupled from the learning rate (Loshchilov, Hutter, 2019; LLM Foundry's form).
#pragma once

#include <parallel/core/config.hpp>

namespace parallel::ops::detail {

/// What an update multiplies a weight by: 1 - lr/initial_lr * weight_decay. Only the schedule
/// scales the decay, not the learning rate itself; an initial_lr of 0 does not scale it at all.
[[nodiscard]] constexpr double decoupled_decay(double lr, double initial_lr, double weight_decay) {
  if (weight_decay == 0.0) return 1.0;
  return 1.0 - (initial_lr == 0.0 ? 1.0 : lr / initial_lr) * weight_decay;
}

}  // namespace parallel::ops::detail
