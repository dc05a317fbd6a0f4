// router_losses: the losses that balance the loads of experts, as settings.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel {

/// The factor of counts of choices where they are the gradient of a parameter: so small that they
/// change no norm of gradients, and a power of two, so that they stay exact.
inline constexpr double count_gradient_scale = 0x1p-60;

/// The rows over which a balancing loss takes its means.
enum class balance_set : std::uint8_t { sequence, microbatch, global_batch };

/// The losses of a router (layer/router.hpp) and their factors; 0: none.
struct router_losses {
  double balance = 0.0;
  double z = 0.0;
  balance_set set = balance_set::microbatch;
  /// The means are over all layers too, whose routers share counts of choices (as in transformers);
  /// the set is then the microbatch, and shares are not divided by top_k.
  bool joins_layers = false;
};

}  // namespace parallel
