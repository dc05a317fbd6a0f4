// Writes finetuning data as an MDS set, tokenised or as text.
//
// The columns are those of LLM Foundry's convert_finetuning_dataset.py: with a tokenizer "turns"
// (json), without one "prompt" and "response" (str) or "messages" (json), whichever the first row
// is. Tokenised rows without anything to train on are left out and counted. As in LLM Foundry, ids
// are not truncated, so that one set serves any max_seq_len and target policy that keeps the same
// rows. Cost: a pass over the rows; memory: a shard.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mpt/finetune/read_examples.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// The form of the set that is written.
struct write_options {
  std::filesystem::path folder{};     ///< the set's folder; must be empty or not exist
  std::string compression{};          ///< of shards: "", "zstd" or "zstd:LEVEL"
  std::vector<std::string> hashes{};  ///< of shards, see hash.hpp
};

/// Writes the rows of `source`'s files to `options.folder`, tokenised where `tokenizer` is given.
/// Errors: a folder that is not empty; rows of another form than the first; those of read_examples.
/// An error leaves no files behind. A tokenised set has a prepare.json with the fingerprint of the
/// tokenizer that made it.
read_report write_set(finetuning_source const& source, write_options const& options,
                      tokenizer const* tokenizer);

}  // namespace mpt::finetune
