#include <mpt/callbacks/nan_monitor.hpp>

#include <cmath>

#include <parallel/core/failures.hpp>

namespace mpt {

void nan_monitor::batch_end(run_control&, batch_result const& r) const {
  if (std::isfinite(r.loss) && std::isfinite(r.gradient_norm)) return;
  throw parallel::diverged(
      parallel::concat("batch ", r.batch, ": the ", std::isfinite(r.loss) ? "gradient" : "loss",
                       " is not finite; lower the learning rate, resume from an "
                       "earlier checkpoint, or set on_not_finite to skip or "
                       "roll_back"));
}

}  // namespace mpt
