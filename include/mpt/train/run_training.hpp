// run_training: a whole run of one rank, as programs call it.
//
// Only declared here, so that who calls it need not compile it: trainer.hpp defines it for any
// element and device.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <mpt/config/train.hpp>
#include <mpt/train/run_parts.hpp>
#include <mpt/train/run_plan.hpp>
#include <mpt/train/run_summary.hpp>
#include <parallel/checkpoint/node_map.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/core/shared_deadline.hpp>

namespace mpt {

/// What a program and a run of it do for each other.
struct run_hooks {
  parallel::action_hook on_save = {};         ///< see checkpoint::stepper_saver
  parallel::checkpoint::claim_id owner = {};  ///< of the folder, see checkpoint::folder_claim
  parallel::action_hook on_local_save = {};   ///< that of checkpoint::local_folder
  /// Which ranks share a disk of their own; none: all do.
  std::optional<parallel::checkpoint::node_map> nodes = {};
  /// Asked before each batch, on every rank; where one says true, the run saves after it and ends.
  std::function<bool()> stop_asked = {};
  /// That of `control` and `exchanges`, which the run sets for each of its phases; none: it stays
  /// as it is.
  std::optional<parallel::shared_deadline> deadline = {};
  /// Seconds that this rank's exchanges have taken so far; none: slow ranks are not looked for.
  std::function<double()> exchange_seconds = {};
};

/// Where the node of `rank` keeps checkpoints, if the run has such.
[[nodiscard]] inline std::optional<parallel::checkpoint::local_folder> local_folder_of(
    checkpoint_config const& config, parallel::checkpoint::node_map const& nodes, int rank,
    parallel::action_hook on_action = {}) {
  if (config.local_save_folder.empty()) return std::nullopt;
  auto const node = std::to_string(nodes.node_of(rank));
  return parallel::checkpoint::local_folder{fill_in(config.local_save_folder, node_rank_mark, node),
                                            nodes, std::move(on_action)};
}

/// Trains with elements T on `device` as planned, to max_duration, from the beginning or from where
/// a checkpoint left off. Ranks agree, save and say by `control` what lies in the host's memory; a
/// step exchanges the device's by `exchanges`, which connects the same ranks in the same order.
/// Collective: all ranks call it at the same time. `parts`: as read_run_parts makes them.
template <class T, class Device, parallel::communicator Comm>
run_summary run_training(train_config const& config, parallel::any_communicator& control,
                         Comm& exchanges, Device& device, run_plan plan, run_parts const& parts,
                         run_hooks hooks = {});

/// Over one communicator for both.
template <class T, class Device>
run_summary run_training(train_config const& config, parallel::any_communicator& comm,
                         Device& device, run_plan plan, run_parts const& parts,
                         run_hooks hooks = {}) {
  return run_training<T>(config, comm, comm, device, std::move(plan), parts, std::move(hooks));
}

}  // namespace mpt
