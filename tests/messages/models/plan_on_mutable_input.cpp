// the model lacks what train::model asks for (parallel/train/model.hpp), by name and types of
// The compiler's note names the call that does not fit: head_loss.
#include "../model.hpp"

struct mutable_input : messages::model {
  void head_loss(auto&, messages::batch const&, parallel::matrix_view<float>,  // not const
                 parallel::matrix_view<float>, parallel::train::statistics<double>&) const {}
};

auto run(mutable_input& model, messages::batch const& batch) {
  return parallel::train::plan_microbatch(model, batch).activations;
}
