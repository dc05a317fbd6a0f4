// the model has no visit_units(f) that calls f with each unit's name, layer, parts and uses
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct model_without_units : messages::model {
  void visit_units() = delete;
};

void run(model_without_units& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
