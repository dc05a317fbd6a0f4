// Finetuning data, from files or MDS sets, to examples in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/finetune/example.hpp>
#include <mpt/finetune/mds_rows.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/read_rows.hpp>
#include <mpt/tokenizer/chat_template.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// Where finetuning data lie, and how they become examples: a loader's `dataset`.
struct finetuning_source {
  std::vector<std::filesystem::path> files{};    ///< of find_files
  std::vector<std::filesystem::path> folders{};  ///< or MDS sets, those that hold index.json
  row_reader parquet{};                          ///< of .parquet files; empty: they are refused
  preprocessor preprocess{};                     ///< empty: columns are as they shall be
  template_engine templates{};  ///< runs a tokenizer's own chat template; empty: it is refused
  std::size_t max_seq_len = 2048;
  std::string target_prompts = "none";
  std::string target_responses = "last";
  id_options ids{};  ///< of tokenised MDS sets
};

/// What became of the rows.
struct read_report {
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;  ///< nothing to train on: an empty part, or a prompt that is too long
  std::uint64_t truncated = 0;  ///< cut to max_seq_len
};

/// The examples of `source`, in the order of its files and rows. Rows without anything to train on
/// are left out and counted. Errors name the file and row, and an MDS set its sample; a tokenizer
/// without an end-of-text token is one. Cost: the examples are held in memory, 8 bytes an id.
[[nodiscard]] std::vector<example> read_examples(finetuning_source const& source,
                                                 tokenizer const& tokenizer,
                                                 read_report* report = nullptr);

}  // namespace mpt::finetune
