// The tokenizer of a model in the fields of a GGUF file (tokenizer.ggml.*), so that llama.cpp gives
// a text the ids that ours gives it.
//
// llama.cpp has two kinds of BPE: `gpt2`, byte-level, whose split into words goes by a name that
// llama.cpp knows (tokenizer.ggml.pre) and whose merges are listed; and `llama`, SentencePiece's,
// which has a score for each token in place of merges: of neighbouring tokens those are merged
// whose result has the highest score. A tokenizer.json has merges in both cases. Scores stand for
// merges exactly if every pair of tokens that makes a token is among the merges, and the merges
// that make one token follow each other; other tokenizers are refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpt/hf/gguf_file.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::hf {

struct gguf_tokenizer {
  std::vector<gguf_field> fields;
  std::vector<std::string> notes;  ///< where llama.cpp treats text differently, a sentence each
};

/// The fields for a model of `vocab_size` rows of embeddings, whose texts end with one of
/// `end_tokens`; empty: with the tokenizer's own. Throws, naming the tokenizer's file, for one that
/// llama.cpp cannot hold.
[[nodiscard]] gguf_tokenizer gguf_tokenizer_of(tokenizer const& tokenizer, std::int64_t vocab_size,
                                               std::span<std::int64_t const> end_tokens);

/// The fields of a file without tokenizer, for programs that pass ids.
[[nodiscard]] std::vector<gguf_field> gguf_fields_without_tokenizer();

}  // namespace mpt::hf
