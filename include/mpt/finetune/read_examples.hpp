// Finetuning data, from files or MDS sets, to examples in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/finetune/example.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/finetune/mds_rows.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/read_rows.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/end_of_text.hpp>

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
[[nodiscard]] inline std::vector<example> read_examples(finetuning_source const& source,
                                                        tokenizer const& tokenizer,
                                                        read_report* report = nullptr) {
  auto const policy = read_target_policy(source.target_prompts, source.target_responses);
  auto const end = require_end(tokenizer, "a response trained without it would never end");
  row_tokenizer tokenize(tokenizer, source.templates);
  std::vector<example> out;
  read_report found;
  auto const add = [&](std::vector<turn> const& turns) {
    ++found.rows;
    auto made = stitch_turns(turns, policy, source.max_seq_len, end);
    if (!made) {
      ++found.dropped;
      return;
    }
    found.truncated += length_of(turns, end) > source.max_seq_len ? 1 : 0;
    out.push_back(std::move(*made));
  };
  auto const add_row = [&](nlohmann::json const& row, std::string_view where) {
    auto const columns = source.preprocess ? source.preprocess(row, where) : row;
    add(tokenize.turns(format_row(columns, where), where));
  };
  for (auto const& file : source.files) read_rows(file, add_row, source.parquet);
  auto ids = source.ids;
  ids.longest = source.max_seq_len;
  for (auto const& folder : source.folders) {
    data::mds_reader const set(folder);
    for (std::uint64_t i = 0; i < set.size(); ++i) {
      auto const sample = set.sample(i);
      if (auto const turns = turns_of(sample, ids))
        add(*turns);
      else
        add_row(text_row(sample), sample.where());
    }
  }
  if (report != nullptr) *report = found;
  parallel::require(found.rows > 0, "the finetuning data hold no rows; look into ",
                    source.files.empty()      ? std::string("their folders")
                    : source.files.size() > 1 ? parallel::concat(source.files.size(), " files")
                                              : source.files[0].native());
  parallel::require(!out.empty(), "of ", found.rows,
                    " rows of finetuning data none is left to train on: prompt or response is "
                    "empty, or the prompt alone has max_seq_len (",
                    source.max_seq_len, ") tokens");
  return out;
}

}  // namespace mpt::finetune
