// How tokens become text: tokenizer.json's `decoder`.
//
// A byte-level token spells bytes (byte_level.hpp). A token of SentencePiece is text with "▁" for
// spaces, or one byte ("<0x0A>"). Bytes that follow each other make characters together; if they
// are not UTF-8, each of them becomes U+FFFD, as in the reference implementation. The space that
// encoding has put in front of a text is removed. An added token becomes its own text, as in
// Hugging Face's tokenizers until 0.22; since 0.23 one that is matched in normalised text becomes
// its normalised text, which may be no longer what skipping special tokens looks for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mpt {

/// The steps of a tokenizer's decoder.
struct decoding_rules {
  bool byte_level = true;           ///< tokens spell bytes; the rest holds for other tokens
  bool mark_is_space = false;       ///< "▁" is a space (Replace)
  bool has_byte_tokens = false;     ///< "<0x0A>" is one byte (ByteFallback)
  std::size_t stripped_spaces = 0;  ///< at most so many spaces are removed from the front (Strip)

  /// The bytes of a token, spelt as in tokenizer.json.
  [[nodiscard]] std::string bytes_of(std::string_view token) const;

  /// Whether a token is one byte, which may be part of a character.
  [[nodiscard]] bool is_byte(std::string_view token) const;
};

/// The text of bytes that tokens stand for one by one.
[[nodiscard]] std::string text_of_byte_tokens(std::string_view bytes);

}  // namespace mpt
