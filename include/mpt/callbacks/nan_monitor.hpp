// nan_monitor: ends a run whose loss or gradient is not finite, because further batches cannot
// repair it. Every run has this callback.
#pragma once

#include <cmath>
#include <string_view>

#include <mpt/callbacks/callback.hpp>
#include <parallel/core/failures.hpp>

namespace mpt {

struct nan_monitor {
  static constexpr std::string_view name = "nan_monitor";

  void batch_end(run_control&, batch_result const& r) const {
    if (std::isfinite(r.loss) && std::isfinite(r.gradient_norm)) return;
    throw parallel::diverged(
        parallel::concat("batch ", r.batch, ": the ", std::isfinite(r.loss) ? "gradient" : "loss",
                         " is not finite; lower the learning rate, resume from an "
                         "earlier checkpoint, or set on_not_finite to skip or "
                         "roll_back"));
  }
};

}  // namespace mpt
