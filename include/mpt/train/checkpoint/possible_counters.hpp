// possible_counters: whether a run can have reached the counters of a checkpoint. A manifest has
// checksums of the tensors, but anybody can edit its numbers, which decide where a run continues.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include <mpt/yaml/time.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Throws unless the batches, epoch, batch_in_epoch and tokens in the `state` of the checkpoint
/// `folder` agree with each other, with its name and with the clock of the run that continues
/// from it. Where batches_per_epoch is 0, epochs are not checked.
void require_possible_counters(nlohmann::json const& state, training_clock const& clock,
                               std::filesystem::path const& folder);

}  // namespace mpt
