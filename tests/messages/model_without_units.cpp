// the model lacks what train::model asks for (parallel/train/model.hpp), by name and types of
// The compiler's note names the call that does not fit: visit_units.
#include <parallel/ops/host.hpp>

#include "model.hpp"

struct without_units : messages::model {
  void visit_units() = delete;
};

void run(without_units& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
