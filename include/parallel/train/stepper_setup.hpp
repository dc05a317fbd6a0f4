// stepper_setup: what is looked at before a stepper takes memory.
#pragma once

#include <string>
#include <utility>

#include <parallel/train/setup_agreement.hpp>
#include <parallel/train/stepper_description.hpp>

namespace parallel::train {

/// Throws unless some parameter of the model is trained.
template <class Model, class KeyOf>
void require_trained(Model& model, KeyOf const& key_of) {
  bool any = false;
  model.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters([&](auto const& p) { any = any || key_of(p.name).trainable; });
  });
  require(any, "every parameter of the model is frozen: a step would train nothing; let ",
          "optimizer_groups::key_of say of some that they are trainable (train::weights evaluates "
          "a model without a stepper)");
}

/// `options`, when all ranks of `world` make the same stepper, which can train. Collective; blocks.
template <class Model, class Comm, class Optimizers, class KeyOf>
[[nodiscard]] stepper_options checked_setup(Model& model, Comm& world, Optimizers const& optimizers,
                                            KeyOf const& key_of, stepper_options options) {
  if constexpr (requires { world.open_exchange(); })
    agree_on_setup(world, describe_stepper(model, optimizers, key_of, options));
  require_threshold(options.clip);
  require_trained(model, key_of);
  return options;
}

}  // namespace parallel::train
