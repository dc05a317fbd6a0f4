// the model names no type microbatch: the views of a microbatch's data
// The model is only planned: no stepper asks for the type first.
#include "../model.hpp"

struct without_microbatch : messages::untyped {
  using element = float;
  using block = parallel::linear<float>;
};

auto run(without_microbatch& model, messages::batch const& batch) {
  return parallel::train::plan_microbatch(model, batch).activations;
}
