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
#include <string>
#include <vector>

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

}  // namespace mpt
