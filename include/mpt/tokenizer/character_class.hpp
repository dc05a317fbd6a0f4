// Classes of characters that the split patterns know: \p{L}, \p{N}, \s and the rest, and also marks
// (\p{M}), the case of letters, and the characters of words (\w).
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

/// The classes that all split patterns distinguish.
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

/// The case of a letter, as GPT-4o's split pattern distinguishes it.
enum class letter_case : std::uint8_t {
  none,      ///< neither letter nor mark
  upper,     ///< Lu, Lt
  lower,     ///< Ll
  caseless,  ///< Lm, Lo and marks
};

/// The letter case of a code point.
[[nodiscard]] letter_case case_of(char32_t c);

/// Whether a code point is a combining mark (Mn, Mc or Me).
[[nodiscard]] bool is_mark(char32_t c);

/// Whether a code point belongs to a word in the sense of \w in Unicode's regular expressions
/// (UTS 18): alphabetic, a mark, a decimal digit, connecting punctuation or a joiner.
[[nodiscard]] bool is_word_character(char32_t c);

}  // namespace mpt
