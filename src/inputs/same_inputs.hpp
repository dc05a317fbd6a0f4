// same_inputs: ranks that are separate processes compare what they have read before they compute,
// so that a machine with another configuration, model, tokenizer or data set is named.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/config/model.hpp>
#include <mpt/config/written_keys.hpp>
#include <mpt/input_fact.hpp>
#include <parallel/comm/any_communicator.hpp>

namespace apps {

/// The fact of this program's file.
[[nodiscard]] mpt::input_fact program_fact();

/// The settings that a configuration, whose file is `file`, writes, without those that name files
/// and folders: they may differ between machines, and their contents are compared.
[[nodiscard]] mpt::input_facts setting_facts(std::filesystem::path const& file,
                                             std::span<mpt::written_key const> written);

/// The settings of a model, which comes from `path`.
[[nodiscard]] mpt::input_facts model_facts(mpt::model_config model,
                                           std::filesystem::path const& path);

/// The files of the tokenizer at `path`; none if there is no such file or folder.
[[nodiscard]] mpt::input_facts tokenizer_facts(std::filesystem::path const& path);

/// The settings and the rows of tasks.
[[nodiscard]] mpt::input_facts task_facts(std::span<mpt::eval::task_config const> tasks);

/// The date of rank 0. Collective.
[[nodiscard]] std::chrono::local_seconds date_of_first_rank(std::chrono::local_seconds date,
                                                            parallel::any_communicator& comm);

/// Whether the facts of this rank are those of rank 0. Collective.
[[nodiscard]] bool equals_first_rank(mpt::input_facts const& facts,
                                     parallel::any_communicator& comm);

/// Throws a refusal on every rank if the facts of one differ from those of rank 0. Collective.
/// Cost: a broadcast of 8 bytes and a reduction of one number where all agree.
void check_same_inputs(mpt::input_facts const& facts, parallel::any_communicator& comm);

}  // namespace apps
