#include <doctest/doctest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <mpt/tokenizer/nfc.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <string>

namespace nfc_test {

std::string utf8(std::u32string_view text) {
  std::string out;
  for (char32_t c : text) mpt::utf8::append(out, c);
  return out;
}

std::string utf8proc_form(std::string const& text, int options) {
  utf8proc_uint8_t* result = nullptr;
  auto const length = utf8proc_map(reinterpret_cast<utf8proc_uint8_t const*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                                   static_cast<utf8proc_option_t>(options));
  std::string out(reinterpret_cast<char const*>(result), static_cast<std::size_t>(length));
  std::free(result);
  return out;
}

bool surrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

TEST_CASE("NFC: composition, order of marks and Hangul follow the Unicode standard") {
  CHECK(mpt::nfc(utf8(U"cafe\u0301")) == utf8(U"caf\u00E9"));
  CHECK(mpt::nfc(utf8(U"a\u0307\u0323 d\u0307\u0323")) == utf8(U"\u1EA1\u0307 \u1E0D\u0307"));
  CHECK(mpt::nfc(utf8(U"\u1100\u1161\u11A8")) == utf8(U"\uAC01"));
  CHECK(mpt::nfc(utf8(U"\uAC00\u11A8x")) == utf8(U"\uAC01x"));
  CHECK(mpt::nfc(utf8(U"\u212B\u2126\u0344")) == utf8(U"\u00C5\u03A9\u0308\u0301"));
  CHECK(mpt::nfc(utf8(U"\u0958")) == utf8(U"\u0915\u093C"));  // excluded from composition
  CHECK(mpt::nfc(utf8(U"\u0301")) == utf8(U"\u0301"));        // a mark at the start of the text
  CHECK(mpt::nfc("").empty());
}

TEST_CASE("NFC: marks newer than Unicode 9 neither move nor let others pass, as in the reference") {
  CHECK(mpt::nfc(utf8(U"a\u0301\u1DFA\u0323")) == utf8(U"\u00E1\u1DFA\u0323"));
  CHECK(mpt::nfc(utf8(U"\U00011935\U00011930")) == utf8(U"\U00011935\U00011930"));
}

TEST_CASE("NFC: U+11A7 is no trailing consonant and is not lost") {
  CHECK(mpt::nfc(utf8(U"\uAC00\u11A7")) == utf8(U"\uAC00\u11A7"));
  CHECK(mpt::nfc(utf8(U"\u1100\u1161\u11A7x")) == utf8(U"\uAC00\u11A7x"));
}

TEST_CASE("NFC: stable characters do not change and never compose with earlier characters") {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (surrogate(c)) continue;
    bool const stable = mpt::detail::contains(mpt::detail::stable_characters, c);
    auto const text = utf8({&c, 1});
    if (stable) {
      bool const is_unchanged = utf8proc_form(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == text;
      bool const starter =
          utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class == 0;
      if (!is_unchanged || !starter) FAIL("not stable: ", static_cast<unsigned>(c));
    }
    // the second and later characters of a decomposition are those that compose with earlier ones
    auto const parts = utf8proc_form(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    for (std::size_t position = mpt::utf8::read(parts, 0).bytes; position < parts.size();) {
      auto const part = mpt::utf8::read(parts, position);
      if (mpt::detail::contains(mpt::detail::stable_characters, part.code_point))
        FAIL("composes: ", static_cast<unsigned>(part.code_point));
      position += part.bytes;
    }
  }
}

TEST_CASE("NFC: normalising stretches equals normalising the whole text") {
  // Every character among letters and marks, except those listed as inert.
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (surrogate(c) || mpt::detail::contains(mpt::detail::inert_characters, c)) continue;
    auto const text = utf8(std::u32string(U"xe") + c + U"\u0301\u0323 y" + c + c + U"\u0338z");
    if (mpt::nfc(text) != utf8proc_form(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE))
      FAIL("differs around ", static_cast<unsigned>(c));
    if (mpt::first_unstable(text) == text.size()) FAIL("the marks were not seen");
  }
}

}  // namespace nfc_test
