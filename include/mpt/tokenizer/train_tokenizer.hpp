// Training a byte-level BPE tokenizer on texts, for runs without an existing tokenizer.
//
// The result is an ordinary tokenizer.json (GPT-2's kind: no normaliser, so decoding gives back
// every text exactly) that Hugging Face's tokenizers load and that gives equal ids there. Ids: the
// special tokens in the order given, the 256 bytes in order of their spelling, then the merges as
// learnt. Special tokens that occur in the texts divide them and are not learnt from. Equal texts
// (in any order) and options give equal bytes of the file on every machine. Cost: memory for the
// distinct words; one or two seconds for 20 MB of English and 4096 tokens.
//
// Learning byte-pair merges from counted words.
//
// Repeatedly the most frequent pair of neighbouring tokens becomes a token. Pairs are counted once;
// after a merge only the words that hold the pair are rewritten, and only the counts of the
// neighbouring pairs change. The most frequent pair comes from a heap whose counts may be stale: a
// stale entry is pushed again with the current count. Ties go to the pair with the smaller left id,
// then the smaller right id, so the result depends only on the counts. The
// rules and the arithmetic are those of Hugging Face's BpeTrainer, so the merges are the same.
// Cost: memory O(bytes of all distinct words); time O(sum over the merges of the words that hold
// the merged pair).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// A word as ids of single bytes, and how often it occurs.
struct counted_word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

/// A learnt merge: two tokens and the token that replaces them.
struct learnt_merge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
};

/// Learns merges until there are `vocab_size` tokens or no pair occurs `min_count` times. `tokens`
/// holds the bytes of every token and grows by the learnt ones; `words` are rewritten.
[[nodiscard]] std::vector<learnt_merge> learn_merges(std::vector<counted_word>& words,
                                                     std::vector<std::string>& tokens,
                                                     std::size_t vocab_size,
                                                     std::int64_t min_count);

/// How to train a tokenizer.
struct train_tokenizer_options {
  std::int32_t vocab_size =
      4096;  ///< maximum number of tokens, special tokens and the 256 bytes included
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  ///< the first ends documents
  std::int64_t min_count = 2;         ///< pairs that occur less often are not merged
  std::int64_t model_max_length = 0;  ///< for tokenizer_config.json; 0: left out
};

namespace detail {

[[nodiscard]] std::string quoted(std::string const& text);

}  // namespace detail

/// Trains a byte-level BPE tokenizer. It has fewer than `vocab_size` tokens if the texts have too
/// few pairs; texts without a word are refused. Text that is not UTF-8 is read as by
/// `tokenizer::encode`.
[[nodiscard]] tokenizer train_tokenizer(std::span<std::string const> texts,
                                        train_tokenizer_options const& options = {});

}  // namespace mpt
