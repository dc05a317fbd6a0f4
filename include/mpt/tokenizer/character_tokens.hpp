// The tokens with which the characters of a word begin, before merges, in SentencePiece's BPE.
//
// A character that is not a token becomes the tokens of its bytes, else the unknown token. Cost:
// one table look-up for a character below U+3000, a hash for others.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <mpt/tokenizer/vocabulary.hpp>

namespace mpt {

/// The treatment of characters that are not tokens.
struct unknown_rules {
  bool use_bytes = false;  ///< the tokens "<0x00>" to "<0xFF>", if all of its bytes have one
  std::int32_t id = -1;    ///< the unknown token; -1: the character is left out
  bool fuse = false;       ///< unknown characters that follow each other become one token
};

/// The tokens of single characters of a model's vocabulary.
class character_tokens {
 public:
  character_tokens() = default;

  /// Takes the characters among the tokens of `model`, which holds no added tokens yet.
  character_tokens(vocabulary const& model, unknown_rules unknown);

  /// Appends the ids of the characters of a word, which is valid UTF-8.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;

  /// Whether every text has ids without the unknown token.
  [[nodiscard]] bool has_all_bytes() const;

 private:
  static constexpr char32_t table_size = 0x3000;

  [[nodiscard]] std::int32_t find(char32_t c) const;
  bool append_bytes(std::string_view character, std::vector<std::int32_t>& ids) const;

  std::vector<std::int32_t> common_ids_;  // of characters below table_size
  std::unordered_map<char32_t, std::int32_t> rare_ids_;
  std::vector<std::int32_t> bytes_;  // of 256 bytes; -1: no token
  unknown_rules unknown_;
};

}  // namespace mpt
