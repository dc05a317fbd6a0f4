// plan_json: the plan of a run and the plan of its step as JSON, for scripts that need the figures
// of describe_plan and describe_step. docs/training.md lists the keys.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <mpt/train/setup/run_plan.hpp>

namespace mpt {

/// The bytes that a rank needs, by what they hold; they add up to memory.total().
[[nodiscard]] nlohmann::ordered_json to_json(train::memory_plan const& memory);

/// The plan of a run that trains `batches` batches on `ranks` ranks.
[[nodiscard]] nlohmann::ordered_json json_of_plan(train_config const& config, run_plan const& plan,
                                                  int ranks, std::int64_t batches);

/// The actions of a step. `plans`: that of each pipeline rank, in their order.
[[nodiscard]] nlohmann::ordered_json json_of_step(std::vector<train::step_plan> const& plans);

}  // namespace mpt
