// example_set: the examples of a finetuning loader in memory, once per process: ranks that are
// threads share it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/finetune/example.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/train/data/remote_sets.hpp>

namespace mpt {

struct example_set {
  std::vector<finetune::example> examples{};
  std::int32_t pad_id = 0;
  finetune::read_report report{};              ///< how many rows were dropped or cut
  std::vector<std::filesystem::path> files{};  ///< files that were read, where a folder was named
  std::chrono::local_seconds date{};           ///< the date that a chat template shows

  /// The number of ids of each example.
  [[nodiscard]] std::vector<std::uint32_t> lengths() const;
};

/// The examples of a run's loaders, null for loaders of text. `evaluation` has the order of
/// eval_loaders.
struct run_examples {
  std::shared_ptr<example_set const> train{};
  std::vector<std::shared_ptr<example_set const>> evaluation{};
};

/// What a run reads its examples with.
struct example_settings {
  finetune::row_reader parquet{};     ///< reads .parquet files; empty: they are refused
  std::chrono::local_seconds date{};  ///< the date that a chat template shows
};

/// A line for each loader: how many of its rows became examples.
[[nodiscard]] std::vector<std::string> describe(run_examples const& examples,
                                                data_config const& data);

/// Reads and tokenises the examples of all finetuning loaders of a run. Cost: one thread reads; 8
/// bytes of memory per id.
[[nodiscard]] run_examples read_run_examples(model_config const& model, data_config const& data,
                                             example_settings const& settings = {},
                                             remote_sets const& sets = {});

}  // namespace mpt
