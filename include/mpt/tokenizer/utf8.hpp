// UTF-8, read with checks: one character at a time, with its validity.
//
// Text comes from crawls and files, so it may hold bytes that are not UTF-8. They are replaced as
// by a lossy decoder (Unicode 15, section 3.9, "substitution of maximal subparts", the rule of
// Python's errors="replace" and Rust's from_utf8_lossy, too): every longest prefix of a character
// that cannot be continued becomes one U+FFFD. A prefix that is cut off by the end of the text is
// distinguished from a wrong one, because a streaming decoder must wait for the remaining bytes.
// Cost: one pass; pure ASCII is skipped eight bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mpt::utf8 {

/// The validity of a character in a text.
enum class status : std::uint8_t {
  valid,       ///< a complete character
  invalid,     ///< bytes that begin no UTF-8 character or have a wrong continuation
  incomplete,  ///< the beginning of a character, cut off by the end of the text
};

/// One character: its code point (U+FFFD unless valid) and its number of bytes (at least one).
struct character {
  char32_t code_point;
  std::uint32_t bytes;
  status state;
};

/// The replacement character, U+FFFD, as UTF-8.
inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Reads the character at `position`, which must be less than `text.size()`.
[[nodiscard]] character read(std::string_view text, std::size_t position);

/// Appends a code point (at most U+10FFFF, no surrogate) as UTF-8.
void append(std::string& out, char32_t code_point);

/// The first position, at or after `position`, of a byte that is not ASCII, or the text's size.
[[nodiscard]] std::size_t skip_ascii(std::string_view text, std::size_t position);

/// Whether the whole text is UTF-8.
[[nodiscard]] bool is_valid(std::string_view text);

/// The text with every wrong or cut-off byte sequence replaced by U+FFFD.
[[nodiscard]] std::string lossy(std::string_view text);

}  // namespace mpt::utf8
