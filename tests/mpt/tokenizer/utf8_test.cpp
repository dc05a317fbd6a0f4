#include <doctest/doctest.h>

#include <mpt/tokenizer/utf8.hpp>
#include <string>
#include <string_view>

namespace utf8_test {

using namespace std::string_view_literals;

TEST_CASE("UTF-8: every code point except surrogates is written and read back") {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    mpt::utf8::append(text, c);
    bool const surrogate = c >= 0xD800 && c < 0xE000;
    auto const read = mpt::utf8::read(text, 0);
    bool const is_valid = read.state == mpt::utf8::status::valid && read.code_point == c &&
                          read.bytes == text.size() && mpt::utf8::is_valid(text);
    if (is_valid == surrogate) FAIL("code point ", static_cast<unsigned>(c));
  }
}

TEST_CASE("UTF-8: each longest wrong prefix of a character becomes one U+FFFD") {
  // The example of the Unicode standard, section 3.9, table 3-11, and the classic bad forms.
  CHECK(mpt::utf8::lossy("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"sv) ==
        "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  CHECK(mpt::utf8::lossy("\xC0\xAF"sv) == "\uFFFD\uFFFD");                      // overlong
  CHECK(mpt::utf8::lossy("\xE0\x80\xAF"sv) == "\uFFFD\uFFFD\uFFFD");            // overlong
  CHECK(mpt::utf8::lossy("\xED\xA0\x80"sv) == "\uFFFD\uFFFD\uFFFD");            // surrogate
  CHECK(mpt::utf8::lossy("\xF4\x90\x80\x80"sv) == "\uFFFD\uFFFD\uFFFD\uFFFD");  // > 10FFFF
  CHECK(mpt::utf8::lossy("\xF0\x9F\x98"sv) == "\uFFFD");                        // cut off
  CHECK(mpt::utf8::lossy("a\0\xC3\xA9"sv) == "a\0\u00E9"sv);                    // nothing wrong
}

TEST_CASE("UTF-8: a character cut off by the end of the text is not a wrong one") {
  using mpt::utf8::status;
  CHECK(mpt::utf8::read("\xE2\x82"sv, 0).state == status::incomplete);
  CHECK(mpt::utf8::read("\xE2\x82"sv, 0).bytes == 2);
  CHECK(mpt::utf8::read("\xE2\x82x"sv, 0).state == status::invalid);
  CHECK(mpt::utf8::read("\x82"sv, 0).state == status::invalid);
  CHECK(mpt::utf8::read("\xFF"sv, 0).state == status::invalid);
}

TEST_CASE("UTF-8: wrong bytes are found at every offset from a word of eight bytes") {
  for (std::size_t length = 0; length < 40; ++length) {
    std::string const ascii(length, 'x');
    CHECK(mpt::utf8::is_valid(ascii));
    for (std::size_t position = 0; position < length; ++position) {
      auto invalid = ascii;
      invalid[position] = '\x80';
      CHECK_FALSE(mpt::utf8::is_valid(invalid));
      auto valid = ascii;
      valid.insert(position, "\u20AC");
      CHECK(mpt::utf8::is_valid(valid));
    }
  }
}

}  // namespace utf8_test
