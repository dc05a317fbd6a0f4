// the model names no type element: that of its parameters and activations, as float
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct without_element : messages::untyped {
  using microbatch = messages::batch;
  using block = parallel::linear<float>;
};

void run(without_element& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
