// progress_check: errors of a training loop that a stepper can see: a position that does not
// advance or goes back, and a first loss that is not finite.
#pragma once

#include <cmath>
#include <optional>
#include <type_traits>

#include <parallel/core/error.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/step_limits.hpp>

namespace parallel::train {

class progress_check {
 public:
  /// Before a step at `current`. A learning rate factor of 0 changes no parameter, so such steps
  /// may repeat a position.
  void before_step(position const& current, double learning_rate_factor) {
    bool const follows =
        learning_rate_factor != 0 && last_update_ && last_update_->seed == current.seed;
    bool const is_repeated =
        follows && last_update_->step == current.step && last_update_->updates == current.updates;
    require(!is_repeated, "position.step is ", current.step,
            " as in the step before, which has updated the parameters; give the number of finished "
            "steps, which chooses the random numbers of dropout and the optimizer's bias "
            "correction");
    require(!follows || current.step >= last_update_->step, "position.step is ", current.step,
            " after ", last_update_ ? last_update_->step : 0,
            ", so that dropout draws the same numbers again; give the number of finished steps, "
            "which goes back only when the values of a checkpoint are loaded");
    current_ = current;
    changes_parameters_ = learning_rate_factor != 0;
  }

  /// After it. `is_guarded`: steps whose loss is not finite are the caller's (keep_finite,
  /// limits).
  template <class Loss>
  void after_step(step_outcome outcome, Loss const& loss, bool is_guarded) {
    if constexpr (std::is_floating_point_v<Loss>)
      require(has_finished_ || is_guarded || std::isfinite(loss), "the loss of the first step is ",
              loss,
              ": initial values, an input or an operation of the model is not finite; "
              "stepper::measure_tensors shows which tensors are, and check_layer tries a layer");
    has_finished_ = true;
    if (changes_parameters_ && outcome == step_outcome::updated) last_update_ = current_;
  }

 private:
  position current_;
  bool changes_parameters_ = false;
  std::optional<position> last_update_;
  bool has_finished_ = false;
};

}  // namespace parallel::train
