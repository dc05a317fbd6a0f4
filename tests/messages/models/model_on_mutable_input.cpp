// the model lacks what train::model asks for (parallel/train/model.hpp), by name and types of
// The compiler's note names the call that does not fit: head_loss.
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct mutable_input : messages::model {
  void head_loss(auto&, messages::batch const&, parallel::matrix_view<float>,  // not const
                 parallel::matrix_view<float>, parallel::train::statistics<double>&) const {}
};

void run(mutable_input& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
