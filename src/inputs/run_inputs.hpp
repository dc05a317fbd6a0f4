// run_inputs: the inputs that a training program reads before its ranks start.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/input_fact.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/remote_sets.hpp>

namespace apps {

struct run_inputs {
  mpt::run_examples examples = {};      ///< of the loaders for finetuning
  std::vector<std::string> lines = {};  ///< to print about the inputs
};

/// Reads, tokenises and checks the data that the configuration names. `sets`: the caches of its
/// remote sets. `date`: the one that chat templates show.
[[nodiscard]] run_inputs read_run_inputs(mpt::model_config const& model,
                                         mpt::data_config const& data,
                                         mpt::evaluation_config const& evaluation,
                                         mpt::remote_sets const& sets,
                                         std::chrono::local_seconds date);

/// The facts of all that a training program, whose configuration is `file`, has read: program,
/// configuration, model, weights, tokenizer, data and tasks.
[[nodiscard]] mpt::input_facts run_facts(std::filesystem::path const& file,
                                         mpt::train_config const& config,
                                         mpt::run_examples const& examples,
                                         mpt::remote_sets const& sets);

/// Opens the caches of the loaders whose `remote` is an address.
[[nodiscard]] mpt::remote_sets open_remote_sets(mpt::data_config const& data);

}  // namespace apps
