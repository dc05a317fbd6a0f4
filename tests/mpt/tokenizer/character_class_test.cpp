#include <doctest/doctest.h>

#include <cctype>
#include <mpt/tokenizer/character_class.hpp>

namespace character_class_test {

using mpt::character_class;
using mpt::class_of;

TEST_CASE("character class: ASCII has the classes of C's ctype in the C locale") {
  for (int c = 0; c < 128; ++c) {
    auto expected = character_class::other;
    if (std::isalpha(c)) expected = character_class::letter;
    if (std::isdigit(c)) expected = character_class::number;
    if (std::isspace(c)) expected = character_class::space;
    CHECK(class_of(static_cast<char32_t>(c)) == expected);
  }
}

TEST_CASE("character class: white space is the 25 characters of Unicode's White_Space") {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += class_of(c) == character_class::space ? 1 : 0;
  CHECK(count == 25);
  for (char32_t c : {0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000})
    CHECK(class_of(c) == character_class::space);
  for (char32_t c : {0x1C, 0x1F, 0x180E, 0x200B, 0x2060,
                     0xFEFF})  // not in White_Space, despite their appearance
    CHECK(class_of(c) != character_class::space);
}

TEST_CASE("character class: letters and numbers are the general categories L and N") {
  for (char32_t c : {0xAA, 0xE9, 0x1C5, 0x2B0, 0x3B1, 0x5D0, 0x639, 0x905, 0x4E2D, 0xAC00, 0x10400})
    CHECK(class_of(c) == character_class::letter);
  for (char32_t c : {0xB2, 0xBD, 0x660, 0x966, 0x2160, 0x2460, 0x3007, 0x1D7CE})
    CHECK(class_of(c) == character_class::number);
  for (char32_t c : {0x301, 0x93E, 0x20AC, 0x1F600, 0xFFFD, 0x24B6, 0xE000, 0x10FFFF})
    CHECK(class_of(c) == character_class::other);
}

TEST_CASE("character class: classes are those of Unicode 16 with any version of utf8proc") {
  // Counted with Hugging Face's tokenizers 0.21.4, without surrogates.
  int letters = 0;
  int numbers = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    letters += class_of(c) == character_class::letter ? 1 : 0;
    numbers += class_of(c) == character_class::number ? 1 : 0;
  }
  CHECK(letters == 141028);
  CHECK(numbers == 1911);
}

TEST_CASE("character class: the case of letters, marks and characters of words") {
  using mpt::letter_case;
  for (char32_t const c : {U'A', U'\u00C9', U'\u01C5', U'\U00010D50'})
    CHECK(mpt::case_of(c) == letter_case::upper);
  for (char32_t const c : {U'z', U'\u00DF', U'\u017F', U'\U00010D70'})
    CHECK(mpt::case_of(c) == letter_case::lower);
  for (char32_t const c : {U'\u00AA', U'\u02B0', U'\u4E2D', U'\u0301', U'\U00010D69'})
    CHECK(mpt::case_of(c) == letter_case::caseless);
  for (char32_t const c : {U'1', U'_', U' ', U'\u2167', U'\U0001F600', U'\u0378'})
    CHECK(mpt::case_of(c) == letter_case::none);
  CHECK(mpt::is_mark(U'\u20DD'));
  CHECK_FALSE(mpt::is_mark(U'\u02B0'));
  for (char32_t const c : {U'_', U'0', U'q', U'\u203F', U'\u2167', U'\u24B6', U'\u200D', U'\u0663'})
    CHECK(mpt::is_word_character(c));
  for (char32_t const c : {U'-', U'\u00B2', U'\u200B', U'\u2581', U'\U0001F600'})
    CHECK_FALSE(mpt::is_word_character(c));
}

}  // namespace character_class_test
