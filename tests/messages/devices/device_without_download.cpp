// the device lacks what parallel::device (parallel/device/concepts.hpp) asks for
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct one_way : parallel::host::device {
  void download() = delete;
};

void run(messages::model& model, one_way& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
