// run_training: a whole run of one rank, as programs call it.
//
// It is only declared here, so that callers need not compile it: trainer.hpp defines it for any
// element type and device.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <mpt/config/train.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/run_parts.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/core/patience.hpp>

namespace mpt {

/// The functions by which a program and its run call each other.
struct run_hooks {
  parallel::action_hook on_save = {};         ///< see checkpoint::stepper_saver
  parallel::checkpoint::claim_id owner = {};  ///< of the folder, see checkpoint::folder_claim
  parallel::action_hook on_local_save = {};   ///< hook of checkpoint::local_folder
  /// Which ranks share a node's own disk; none: all ranks do.
  std::optional<parallel::checkpoint::node_map> nodes = {};
  /// Called before each batch on every rank; where it returns true on any rank, the run saves after
  /// the batch and ends.
  std::function<bool()> stop_asked = {};
  /// The deadline of `control` and `exchanges`, which the run sets for each of its phases; none:
  /// the run leaves the deadline unchanged.
  std::optional<parallel::shared_deadline> deadline = {};
  /// Returns the seconds that this rank's exchanges have taken so far; none: the run does not look
  /// for slow ranks.
  std::function<double()> exchange_seconds = {};
  /// What a step of rank 0 is predicted to take; none: the run does not compare its steps with it.
  std::optional<step_seconds> expected_step = {};
};

/// The folder on the node of `rank` for local checkpoints, if the run saves them.
[[nodiscard]] std::optional<parallel::checkpoint::local_folder> local_folder_of(
    checkpoint_config const& config, parallel::checkpoint::node_map const& nodes, int rank,
    parallel::action_hook on_action = {});

/// Trains with elements T on `device` as planned, to max_duration, from the beginning or from where
/// a checkpoint left off. Collective: all ranks call it at the same time.
///
///     auto const plan = plan_run<bf16>(config, comm.size(), device.available_bytes());
///     auto const summary = run_training<bf16>(config, comm, device, plan, parts);
///
/// - `control`: connects the ranks for messages in the host's memory
/// - `exchanges`: connects the same ranks in the same order; steps exchange the device's memory
///   over it
/// - `plan`: of plan_run, the same on every rank
/// - `parts`: data, tokenizer and tasks, as read_run_parts makes them
/// - `hooks`: functions by which the program and the run call each other
template <class T, class Device, parallel::communicator Comm>
run_summary run_training(train_config const& config, parallel::any_communicator& control,
                         Comm& exchanges, Device& device, run_plan plan, run_parts const& parts,
                         run_hooks hooks = {});

/// The same with one communicator for both.
template <class T, class Device>
run_summary run_training(train_config const& config, parallel::any_communicator& comm,
                         Device& device, run_plan plan, run_parts const& parts,
                         run_hooks hooks = {}) {
  return run_training<T>(config, comm, comm, device, std::move(plan), parts, std::move(hooks));
}

}  // namespace mpt
