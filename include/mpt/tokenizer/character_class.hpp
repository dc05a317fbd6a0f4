// The four classes of characters that GPT-2's split pattern knows: \p{L}, \p{N}, \s and the rest.
//
// \s is Unicode's White_Space property, which differs from C's isspace: it includes U+0085, U+00A0
// and U+2028, and excludes U+200B and U+001C. Letters and numbers are the general categories L* and
// N*, from utf8proc. The reference tokenizers use Unicode 16, utf8proc 2.8 uses 15.0; characters
// newer than 15.0 are found in a small table, so that every version of utf8proc gives the same ids.
// Cost: one table look-up for ASCII, two in utf8proc for other characters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mpt {

/// The classes that the split pattern distinguishes.
enum class character_class : std::uint8_t { other, letter, number, space };

namespace detail {

[[nodiscard]] constexpr std::array<character_class, 128> make_ascii_classes() {
  std::array<character_class, 128> classes{};
  for (char c = 'a'; c <= 'z'; ++c) {
    classes[static_cast<std::size_t>(c)] = character_class::letter;
    classes[static_cast<std::size_t>(c - 'a' + 'A')] = character_class::letter;
  }
  for (char c = '0'; c <= '9'; ++c) classes[static_cast<std::size_t>(c)] = character_class::number;
  for (char c : {'\t', '\n', '\v', '\f', '\r', ' '})
    classes[static_cast<std::size_t>(c)] = character_class::space;
  return classes;
}

inline constexpr auto ascii_classes = make_ascii_classes();

}  // namespace detail

/// Whether a character has Unicode's White_Space property.
[[nodiscard]] constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// The class of a code point.
[[nodiscard]] character_class class_of(char32_t c);

}  // namespace mpt
