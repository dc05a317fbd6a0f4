// run_parts: what a run needs beside its model and its ranks, each behind an interface, so that a
// trainer is compiled without knowing files' formats, tokenizers or tasks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/callbacks/sample_prompts.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/run_tasks.hpp>
#include <mpt/train/weight_source.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Shared by the ranks of a process, which call it at the same time. read_run_parts makes those
/// that a configuration asks for.
struct run_parts {
  std::shared_ptr<run_data const> data;                ///< never null in a run
  std::shared_ptr<run_tasks const> tasks = {};         ///< where it has icl_tasks
  std::shared_ptr<sample_prompts const> prompts = {};  ///< where it has a generate_callback
  std::shared_ptr<hf_exports const> exports = {};      ///< where it has an hf_checkpointer
  weight_opener open_weights = {};  ///< where it may begin from what is no checkpoint of a run
  std::string adapter_base = {};    ///< of a run that trains adapters, see adapter_base_of
  std::optional<double> packing_ratio = {};  ///< of train_loader, where it packs by itself
};

/// Throws unless there is all that the configuration asks for.
[[nodiscard]] inline run_parts const& checked(train_config const& config, run_parts const& parts) {
  auto const there = [](bool wanted, bool is, std::string_view what) {
    require(!wanted || is, "a run with ", what,
            " needs it read before; give the parts that read_run_parts makes");
  };
  there(true, parts.data != nullptr, "a train_loader");
  there(!config.icl.tasks.empty(), parts.tasks != nullptr, "icl_tasks");
  there(config.callbacks.generate.has_value(), parts.prompts != nullptr, "a generate_callback");
  there(config.callbacks.hf_checkpointer.has_value(), parts.exports != nullptr,
        "an hf_checkpointer");
  return parts;
}

}  // namespace mpt
