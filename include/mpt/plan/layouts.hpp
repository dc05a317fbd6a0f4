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

/// Variations of one of layout_settings: schedules of the pipeline, microbatches, recomputation,
/// gradients exchanged in bf16, and the optimizer's states in the host's memory.
[[nodiscard]] std::vector<settings> variations_of(settings const& layout,
                                                  train_config const& config);

}  // namespace mpt
