// the optimizer lacks what parallel::optimizer (parallel/optim/concepts.hpp) asks for
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct forgetful {
  std::span<std::string_view const> state_names() const { return {}; }
};

void run(messages::model& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, forgetful{}, {});
}
