// Decoding ids one at a time, for text that appears while it is generated.
//
// A token may end in the middle of a UTF-8 character; such bytes (at most 3) wait for the next
// token. The output is always whole characters, and all output together, with `finish`, equals
// decoding all ids at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

/// Turns a stream of ids into a stream of whole characters. Refers to its tokenizer.
class stream_decoder {
 public:
  /// A decoder at the beginning of a text. The tokenizer must outlive it.
  explicit stream_decoder(tokenizer const& source, special_tokens special = special_tokens::keep)
      : source_(&source), special_(special) {}

  /// The characters that this id completes; maybe none. Error: an id without token.
  [[nodiscard]] std::string push(std::int32_t id);

  /// Ends the text and returns U+FFFD if a character is incomplete. Then a new text may begin.
  [[nodiscard]] std::string finish() { return utf8::lossy(std::exchange(waiting_, {})); }

 private:
  tokenizer const* source_;
  special_tokens special_;
  std::string waiting_;
};

}  // namespace mpt
