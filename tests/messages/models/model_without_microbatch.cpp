// the model names no type microbatch: the views of a microbatch's data
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct without_microbatch : messages::untyped {
  using element = float;
  using block = parallel::linear<float>;
};

void run(without_microbatch& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
