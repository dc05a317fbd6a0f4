// Settings that a resumed run may change, such as the learning rate, and what to say when it does.
//
// A checkpoint notes the settings it was trained with. A run that goes on from it trains with the
// settings of its own configuration; those that differ are named in one note, so that a value which
// somebody changed by mistake, or expected from the checkpoint, is noticed. Settings that
// must not change (batch size, data, model) are refused in run_checkpoint.hpp.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>

namespace mpt {

/// The settings that a resumed run may change, by the names they have in a configuration: a flat
/// object, which a checkpoint of the run keeps.
[[nodiscard]] nlohmann::json changeable_settings(model_config const& model,
                                                 optimizer_config const& optimizer,
                                                 execution_config const& execution);

/// The settings that differ between `saved`, those of a checkpoint, and `current`, each as
/// "name (was value, now value)"; nothing when all are equal. A setting that one of them lacks, as
/// a checkpoint of an earlier version does, is left out.
[[nodiscard]] std::optional<std::string> describe_changed_settings(nlohmann::json const& saved,
                                                                   nlohmann::json const& current);

}  // namespace mpt
