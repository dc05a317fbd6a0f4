// stepper_setup: what is looked at before a stepper takes memory.
#pragma once

#include <utility>

#include <parallel/train/setup_agreement.hpp>
#include <parallel/train/stepper_description.hpp>

namespace parallel::train {

/// `options`, when all ranks of `world` make the same stepper. Collective; blocks.
template <class Model, class Comm, class Optimizers, class KeyOf>
[[nodiscard]] stepper_options checked_setup(Model& model, Comm& world, Optimizers const& optimizers,
                                            KeyOf const& key_of, stepper_options options) {
  if constexpr (requires { world.open_exchange(); })
    agree_on_setup(world, describe_stepper(model, optimizers, key_of, options));
  return options;
}

}  // namespace parallel::train
