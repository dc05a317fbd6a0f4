// The callbacks of a training run, made from its configuration.
#pragma once

#include <mpt/callbacks/early_stopper.hpp>
#include <mpt/callbacks/kill_loss_spike.hpp>
#include <mpt/callbacks/monitors.hpp>
#include <mpt/config/train.hpp>

namespace mpt {

/// The callbacks in the order in which events reach them.
using run_callbacks = callback_list<nan_monitor, optimizer_monitor, kill_loss_spike, early_stopper>;

/// The callbacks that a configuration names.
[[nodiscard]] run_callbacks make_callbacks(callbacks_config const& callbacks,
                                           data_config const& data, training_clock const& clock);

}  // namespace mpt
