// UTF-8, read with suspicion: one character at a time, saying whether it is whole.
//
// Text comes from crawls and files, so it may hold bytes that are no UTF-8. They are replaced as a
// lossy decoder does (Unicode 15, section 3.9, "substitution of maximal subparts", also what
// Python's errors="replace" and Rust's from_utf8_lossy do): every longest prefix of a character
// that cannot be continued becomes one U+FFFD. A prefix cut off by the end of the text is told
// apart from a wrong one, because a streaming decoder must wait for its rest. Cost: one pass; pure
// ASCII is passed over eight bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mpt::utf8 {

/// What stands at a place of a text.
enum class status : std::uint8_t {
  valid,    ///< a whole character
  invalid,  ///< bytes that no UTF-8 character begins with, or that are not continued as they must
  incomplete,  ///< the beginning of a character, cut off by the end of the text
};

/// One character: its code point (U+FFFD unless valid) and the bytes it takes (at least one).
struct character {
  char32_t code_point;
  std::uint32_t bytes;
  status state;
};

/// The replacement character, U+FFFD, as UTF-8.
inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Reads the character at `place`, which must be less than `text.size()`.
[[nodiscard]] character read(std::string_view text, std::size_t place);

/// Appends a code point (at most U+10FFFF, no surrogate) as UTF-8.
void append(std::string& out, char32_t code_point);

/// The first place at or after `place` whose byte is not ASCII, or the text's size.
[[nodiscard]] std::size_t skip_ascii(std::string_view text, std::size_t place);

/// Whether the whole text is UTF-8.
[[nodiscard]] bool is_valid(std::string_view text);

/// The text with every wrong or cut-off byte sequence replaced by U+FFFD.
[[nodiscard]] std::string lossy(std::string_view text);

}  // namespace mpt::utf8
