// the model lacks what train::model asks for (parallel/train/model.hpp), by name and types of
// Steps are planned there: passes take the context of any stream.
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct of_host : messages::model {
  void head_loss(parallel::context<parallel::host::stream>&, messages::batch const&,
                 parallel::matrix_view<float const>, parallel::matrix_view<float>,
                 parallel::train::statistics<double>&) const {}
};

void run(of_host& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
