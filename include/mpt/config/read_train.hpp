// Reads a whole training configuration (LLM Foundry's scripts/train YAML surface).
//
// Every top-level key of LLM Foundry's TrainConfig is known: it has its effect, is listed as
// without effect here with the reason, or is refused while we lack it. Other keys are errors.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>
#include <mpt/yaml/report.hpp>

namespace mpt {

/// Values that a configuration takes from its environment.
struct config_environment {
  std::string run_name = {};  ///< $RUN_NAME; used where run_name is blank
  std::string default_run_name =
      "mpt";                        ///< where that is empty, too: stable, so that resuming works
  std::filesystem::path file = {};  ///< the configuration's; files of tasks may be near it
};

/// $RUN_NAME of this process, and the configuration file's name without its ending.
[[nodiscard]] config_environment process_environment(std::filesystem::path const& file);

namespace detail {

[[nodiscard]] tokenizer_config read_tokenizer(config_reader reader);

/// Reads the keys of checkpoints; `pretrained` and `adapter` stay as they are.
void read_checkpoint(config_reader& reader, std::string const& run_name,
                     checkpoint_config& checkpoint);

}  // namespace detail

/// Reads a document. Throws `parallel::error` on the first thing that is wrong; what to print is in
/// the result's report.
[[nodiscard]] train_config read_train_config(config_node const& document,
                                             config_environment const& environment = {});

/// Loads a file with overrides and reads it. `change`, if it is given, may change the document
/// before that.
[[nodiscard]] train_config load_train_config(std::filesystem::path const& file,
                                             std::span<std::string const> overrides = {},
                                             document_change const& change = {});

/// The keys that a file may have, sorted by name: those that the reader asks for in this file with
/// these overrides, as far as it can be read, and in a run with all sections. In a file that cannot
/// be read whole, those of text and of finetuning.
[[nodiscard]] std::vector<known_key> known_keys(std::filesystem::path const& file,
                                                std::span<std::string const> overrides = {});

}  // namespace mpt
