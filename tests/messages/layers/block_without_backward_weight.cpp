// the model's block has no backward_weight(context, saved)
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct fixed : parallel::linear<float> {
  void backward_weight() = delete;
};
struct of_fixed : messages::model {
  using block = fixed;

  fixed other;

  fixed const& at(std::size_t) const { return other; }
};

void run(of_fixed& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
