// Reads finetuning data from files or MDS sets into examples in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/finetune/example.hpp>
#include <mpt/finetune/mds_rows.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/read_rows.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// The location of finetuning data and the settings for converting them to examples: a loader's
/// `dataset`.
struct finetuning_source {
  std::vector<std::filesystem::path> files{};  ///< from find_files
  std::vector<std::filesystem::path>
      folders{};                            ///< MDS sets, which hold index.json, in place of files
  std::vector<data::cached_set> remotes{};  ///< for each folder, its set in a cache
  row_reader parquet{};                     ///< reads .parquet files; empty: they are refused
  preprocessor preprocess{};                ///< empty: columns are used unchanged
  std::chrono::local_seconds date{};        ///< the date that a chat template shows
  std::size_t max_seq_len = 2048;
  std::string target_prompts = "none";
  std::string target_responses = "last";
  id_options ids{};  ///< for tokenised MDS sets
};

/// Counts of rows read, dropped and truncated.
struct read_report {
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;  ///< nothing to train on: an empty part, or a prompt that is too long
  std::uint64_t truncated = 0;  ///< cut to max_seq_len
};

/// The examples of `source`, in the order of its files and rows. Rows without anything to train on
/// are left out and counted. Errors name the file and row, or the sample of an MDS set; a tokenizer
/// without an end-of-text token is an error. Cost: the examples are held in memory, 8 bytes an id.
[[nodiscard]] std::vector<example> read_examples(finetuning_source const& source,
                                                 tokenizer const& tokenizer,
                                                 read_report* report = nullptr);

}  // namespace mpt::finetune
