// Finetuning data written as an MDS set, tokenised or as text.
//
// The columns are those of LLM Foundry's convert_finetuning_dataset.py: with a tokenizer "turns"
// (json), without one "prompt" and "response" (str), or "messages" (json), as the first row is.
// Rows of which nothing would be trained on are left out when tokenised, and counted. As there the
// ids are whole, so that one set serves any max_seq_len and target policy that keeps the same rows.
// Cost: a pass over the rows; memory a shard.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mpt/finetune/read_examples.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

struct write_options {
  std::filesystem::path folder{};     ///< of the set; must not be there, or be empty
  std::string compression{};          ///< of shards: "", "zstd" or "zstd:LEVEL"
  std::vector<std::string> hashes{};  ///< of shards, see hash.hpp
};

/// Writes the rows of `source`'s files to `options.folder`; with `tokens`, tokenised. Errors: a
/// folder that is not empty; rows of another form than the first; those of read_examples. With an
/// error nothing is left behind. A tokenised set has a prepare.json that says which tokenizer made
/// it.
read_report write_set(finetuning_source const& source, write_options const& options,
                      tokenizer const* tokens);

}  // namespace mpt::finetune
