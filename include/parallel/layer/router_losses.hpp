// router_losses: the losses that balance the loads of experts, as settings.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel {

/// The rows over which a balancing loss takes its means.
enum class balance_set : std::uint8_t { sequence, microbatch };

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
