// the communicator lacks what has_split (parallel/comm/concepts.hpp) asks for
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct whole : parallel::single {
  void split() = delete;
};

void run(messages::model& model, parallel::host::device& device, whole& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
