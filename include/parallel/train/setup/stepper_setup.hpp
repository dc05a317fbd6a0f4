// stepper_setup: the checks before a stepper takes memory.
#pragma once

#include <string>

#include <parallel/train/setup/setup_agreement.hpp>
#include <parallel/train/setup/stepper_description.hpp>

namespace parallel::train {

/// Whether any parameter of the model is trained.
template <class Model, class KeyOf>
[[nodiscard]] bool trains_any(Model& model, KeyOf const& key_of) {
  bool any = false;
  model.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    visit_parameters_of(layer, [&](auto const& p) { any = any || key_of(p.name).trainable; });
  });
  return any;
}

/// Returns `options` when all ranks of `world` construct the same stepper. Collective; blocks.
template <class Model, class Comm, class Optimizers, class KeyOf>
[[nodiscard]] stepper_options checked_setup(Model& model, Comm& world, Optimizers const& optimizers,
                                            KeyOf const& key_of, stepper_options options) {
  if constexpr (requires { world.open_exchange(); })
    agree_on_setup(world, describe_stepper(model, optimizers, key_of, options));
  require_threshold(options.clip);
  return options;
}

}  // namespace parallel::train
