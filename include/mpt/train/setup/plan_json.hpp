// plan_json: the plan of a run, and of its step, as JSON: the figures of describe_plan and
// describe_step for scripts. docs/training.md lists the keys.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <mpt/train/setup/run_plan.hpp>

namespace mpt {

/// The bytes of a rank by what they hold; their sum is the total of the plan.
[[nodiscard]] nlohmann::ordered_json to_json(train::memory_plan const& memory);

/// The plan of a run of `batches` batches on `ranks` ranks.
[[nodiscard]] nlohmann::ordered_json json_of_plan(train_config const& config, run_plan const& plan,
                                                  int ranks, std::int64_t batches);

/// The action lists of a step, by pipeline rank.
[[nodiscard]] nlohmann::ordered_json json_of_step(std::vector<train::step_plan> const& plans);

}  // namespace mpt
