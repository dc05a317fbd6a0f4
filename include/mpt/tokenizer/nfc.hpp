// Unicode's normal form C, as the reference tokenizers compute it.
//
// GPT-NeoX normalises text to NFC before it looks for words. Nearly all text is in NFC already, so
// only stretches around characters that might compose or be reordered are passed to utf8proc; the
// rest is copied. The reference implementation's tables are those of Unicode 9: it treats later
// combining marks as ordinary characters, which neither move nor compose. These marks are listed
// here and treated in the same way, so that ids are equal for every text.
// Cost: one pass. A stretch of k combining marks in a row costs up to k^2 (utf8proc sorts by
// insertion).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

namespace detail {

struct code_point_range {
  char32_t first;
  char32_t last;
};

template <std::size_t Count>
[[nodiscard]] bool contains(code_point_range const (&ranges)[Count], char32_t c) {
  auto const* const range =
      std::lower_bound(std::begin(ranges), std::end(ranges), c,
                       [](code_point_range const& r, char32_t value) { return r.last < value; });
  return range != std::end(ranges) && range->first <= c;
}

/// Characters that are in NFC, have combining class 0 and never combine with an earlier character.
/// The list is not complete: it has the common characters in a few ranges.
inline constexpr code_point_range stable_characters[] = {
    {0x0000, 0x02FF},   // Latin, IPA
    {0x0388, 0x0482},   // Greek, Cyrillic
    {0x048A, 0x0590},   // Cyrillic, Armenian
    {0x05D0, 0x060F},   // Hebrew letters
    {0x0620, 0x064A},   // Arabic letters
    {0x2002, 0x20CF},   // punctuation, currency
    {0x2190, 0x2328},   // arrows, mathematics, technical
    {0x2400, 0x2ADB},   // boxes, symbols, mathematics
    {0x3000, 0x3029},   // CJK punctuation
    {0x3030, 0x3098},   // Hiragana
    {0x309B, 0xA66E},   // Katakana, CJK, Yi
    {0xAC00, 0xD7A3},   // Hangul syllables
    {0xFF00, 0xFFFD},   // full-width forms, U+FFFD
    {0x1F000, 0x1FAFF}  // emoji
};

/// Characters that neither move nor compose: combining or composing characters newer than Unicode
/// 9, and U+11A7, which utf8proc 2.8 drops as if it were a trailing Hangul consonant.
inline constexpr code_point_range inert_characters[] = {
    {0x07FD, 0x07FD},   {0x0897, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x11A7, 0x11A7},
    {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x105C0, 0x105F3}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
    {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x11380, 0x113E2}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11946}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16100, 0x16139}, {0x16D40, 0x16D79}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E5EE, 0x1E5EF}};

}  // namespace detail

/// The position of the first character that might not be in NFC, or the size of the text if all of
/// it is. `text` must be valid UTF-8. (NFC may leave the character at that position unchanged.)
[[nodiscard]] std::size_t first_unstable(std::string_view text);

/// The normal form C of valid UTF-8, by the reference tokenizers' tables.
[[nodiscard]] std::string nfc(std::string_view text);

}  // namespace mpt
