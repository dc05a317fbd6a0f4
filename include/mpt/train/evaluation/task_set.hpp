// task_set: the tasks of in-context learning that a run evaluates its model on, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/eval/icl_rows.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

struct task_set {
  std::vector<eval::loaded_task> tasks;
  mpt::tokenizer tokenizer;
  std::optional<eval::gauntlet_config> gauntlet;
  std::optional<std::int64_t> subset_batches;
};

/// Reads the tasks of a configuration that has tasks. Throws when rows are wrong or too long for
/// the tasks' length, the tokenizer is missing or has more tokens than the model, or rows may be
/// longer than the model's learned positions. Cost: every row that is run is tokenised.
[[nodiscard]] task_set read_task_set(model_config const& model, data_config const& data,
                                     evaluation_config const& evaluation);

}  // namespace mpt
