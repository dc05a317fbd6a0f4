// the operations of this device are not declared; include them: <parallel/ops/host.hpp>
#include "model.hpp"

void run(messages::stepper& step, parallel::host::stream& compute,
         parallel::host::stream& exchanges, parallel::arena& memory,
         std::span<messages::batch const> batches) {
  step.step(compute, exchanges, memory, batches, {}, {}, 1.0);
}
