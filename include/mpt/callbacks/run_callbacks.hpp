// The callbacks of a training run, made from its configuration.
#pragma once

#include <mpt/callbacks/early_stopper.hpp>
#include <mpt/callbacks/kill_loss_spike.hpp>
#include <mpt/callbacks/monitors.hpp>
#include <mpt/callbacks/routing_monitor.hpp>
#include <mpt/config/train.hpp>

namespace mpt {

/// The callbacks in the order in which events reach them.
using run_callbacks =
    callback_list<nan_monitor, optimizer_monitor, routing_monitor, kill_loss_spike, early_stopper>;

/// The callbacks of a run with this configuration.
[[nodiscard]] run_callbacks make_callbacks(train_config const& config, training_clock const& clock);

}  // namespace mpt
