// layouts: the settings of a run on a cluster that a plan compares, as overrides of its file.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/setup/fitting_settings.hpp>
#include <parallel/cluster/cluster.hpp>

namespace mpt {

/// Every way to divide a run of `config` over all devices of a cluster: tensor within a node,
/// context for long sequences, pipeline, and the ZeRO stages with shards over all data ranks or
/// over those of a node. Degrees that divide nothing of the model are left out; those that other
/// rules forbid are found when the settings are read.
[[nodiscard]] std::vector<settings> layout_settings(train_config const& config,
                                                    parallel::cluster::cluster const& machines);

/// What may vary in a layout, in the order in which a search tries it.
enum class variation {
  schedule,       ///< of the pipeline
  microbatch,     ///< sequences of a forward pass
  recomputation,  ///< of whole blocks, or none
  shards,         ///< data ranks that divide the states, by nodes
  stages,         ///< blocks of the stages of a pipeline
  reduction       ///< whether gradients are exchanged in bf16
};
/// All variations, in the order in which a search tries them.
inline constexpr variation variations[] = {variation::schedule,      variation::microbatch,
                                           variation::recomputation, variation::shards,
                                           variation::stages,        variation::reduction};

/// The settings to try, one after another, to vary a run on a cluster in one way.
[[nodiscard]] std::vector<settings> alternatives(variation kind, train_config const& config,
                                                 parallel::cluster::cluster const& machines);

/// The settings to try for a layout that has no room, the fastest first.
[[nodiscard]] std::vector<settings> roomier_settings(train_config const& config);

/// `layout` with `changes`, each in the place of a setting of the same key.
[[nodiscard]] settings with_changes(settings layout, settings const& changes);

}  // namespace mpt
