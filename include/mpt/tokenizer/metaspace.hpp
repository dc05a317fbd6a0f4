// SentencePiece's spelling of text: a space is the visible character "▁" (U+2581), also inside
// tokens.
//
// A text usually gets one "▁" in front, so that its first word is spelt as any other. Tokens named
// "<0x00>" to "<0xFF>" are single bytes, for characters that are not tokens. Merges run over the
// characters of a whole text; where no merge of a vocabulary joins another character to a "▁" that
// follows it, merging the words between such places one by one gives the same ids. Paper: Kudo,
// Richardson, "SentencePiece: A simple and language independent subword tokenizer" (2018).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpt::metaspace {

/// The character that stands for a space.
inline constexpr std::string_view mark = "\u2581";

/// Where a "▁" is put in front of text that does not begin with one.
enum class prefix_scheme : std::uint8_t {
  never,
  first,   ///< at the beginning of the text
  always,  ///< also after every added token
};

/// The splitting by tokenizer.json's pre_tokenizer Metaspace, after it has spelt spaces as "▁".
struct options {
  prefix_scheme prefix = prefix_scheme::always;
  bool split = true;  ///< every "▁" begins a word
};

/// The text with every space spelt as "▁".
[[nodiscard]] std::string spell(std::string_view text);

/// The text with every "▁" read as a space.
[[nodiscard]] std::string read(std::string_view token);

/// The byte that a token such as "<0x0A>" stands for, if it is such a token.
[[nodiscard]] std::optional<unsigned char> byte_of(std::string_view token);

/// The token of a byte: "<0x0A>".
[[nodiscard]] std::string byte_token(unsigned char byte);

/// Whether a "▁" follows another character somewhere in the token.
[[nodiscard]] bool joins_words(std::string_view token);

/// The end of the word that begins at `position`: the next "▁" after it, or, if `runs` says that
/// several "▁" begin one word, the next "▁" after another character.
[[nodiscard]] std::size_t end_of_word(std::string_view text, std::size_t position, bool runs);

}  // namespace mpt::metaspace
