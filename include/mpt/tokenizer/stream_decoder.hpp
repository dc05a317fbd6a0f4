// Decoding ids one at a time, for text that appears while it is generated.
//
// A byte-level token may end in the middle of a UTF-8 character; such bytes (at most 3) wait for
// the next token. Byte tokens of SentencePiece wait for the next token that is not a byte, since
// one wrong byte makes all of them U+FFFD. The output is always whole characters, and all output
// together, with `finish`, equals decoding all ids at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// Whether the ids of a decoder begin a text or continue one. The space that SentencePiece puts in
/// front of a text is removed at its beginning alone.
enum class text_position : std::uint8_t { beginning, continuation };

/// Turns a stream of ids into a stream of whole characters. Refers to its tokenizer.
class stream_decoder {
 public:
  /// A decoder in front of the first id. The tokenizer must outlive it.
  explicit stream_decoder(tokenizer const& source, special_tokens special = special_tokens::keep,
                          text_position position = text_position::beginning);

  /// The characters that this id completes; maybe none. Error: an id without token.
  [[nodiscard]] std::string push(std::int32_t id);

  /// Ends the text and returns what waits, with U+FFFD if a character is incomplete. Then a new
  /// text may begin.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string take_characters();
  [[nodiscard]] std::string take_byte_tokens();
  [[nodiscard]] std::string without_prefix(std::string text);

  tokenizer const* source_;
  special_tokens special_;
  std::string waiting_;          // bytes whose characters are not certain yet
  std::size_t spaces_to_strip_;  // from what comes next
};

}  // namespace mpt
