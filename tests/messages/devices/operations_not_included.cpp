// the operations of this device are not declared; include them: <parallel/ops/host.hpp>
// Whatever a trainer calls: one sentence, once.
#include "../model.hpp"

void run(messages::stepper& step, parallel::host::stream& compute,
         parallel::host::stream& exchanges, parallel::arena& memory,
         std::span<messages::batch const> batches, parallel::train::statistics_sum<double>& sums) {
  step.initialise(1);
  step.step(compute, exchanges, memory, {batches, {}, {}, 1.0});
  step.add_evaluation(compute, memory, batches, sums);
}
