// the model names no type block: the layer that at(i) gives
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct without_block : messages::untyped {
  using element = float;
  using microbatch = messages::batch;
};

void run(without_block& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
