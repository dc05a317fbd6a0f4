// Decoding ids one at a time, for text that appears while it is generated.
//
// A token may end in the middle of a UTF-8 character; such bytes wait for the next token. What
// comes out is always whole characters, and all of it together, with `finish`, equals decoding all
// ids at once. At most 3 bytes wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <string>
#include <utility>

namespace mpt {

/// Turns a stream of ids into a stream of whole characters. Refers to its tokenizer.
class stream_decoder {
 public:
  /// A decoder at the beginning of a text. The tokenizer must outlive it.
  explicit stream_decoder(tokenizer const& source, special_tokens special = special_tokens::keep)
      : source_(&source), special_(special) {}

  /// The characters that became complete with this id; maybe none. Error: an id without token.
  [[nodiscard]] std::string push(std::int32_t id) {
    if (special_ == special_tokens::skip && source_->is_special(id)) return {};
    waiting_ += source_->bytes_of(id);
    std::string out;
    std::size_t place = 0;
    while (place < waiting_.size()) {
      auto const next = utf8::read(waiting_, place);
      if (next.state == utf8::status::incomplete) break;
      if (next.state == utf8::status::valid)
        out.append(waiting_, place, next.bytes);
      else
        out += utf8::replacement;
      place += next.bytes;
    }
    waiting_.erase(0, place);
    return out;
  }

  /// Ends the text: U+FFFD if a character was left incomplete. Then a new text may begin.
  [[nodiscard]] std::string finish() { return utf8::lossy(std::exchange(waiting_, {})); }

 private:
  tokenizer const* source_;
  special_tokens special_;
  std::string waiting_;
};

}  // namespace mpt
