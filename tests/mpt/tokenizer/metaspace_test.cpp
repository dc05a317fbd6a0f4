#include <doctest/doctest.h>

#include <mpt/tokenizer/metaspace.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace metaspace_test {

namespace ms = mpt::metaspace;

std::vector<std::string> words(std::string_view text, bool runs) {
  std::vector<std::string> out;
  for (std::size_t position = 0; position < text.size();) {
    auto const end = ms::end_of_word(text, position, runs);
    out.emplace_back(text.substr(position, end - position));
    position = end;
  }
  return out;
}

TEST_CASE("metaspace: spaces are spelt as marks and read back") {
  CHECK(ms::spell(" a  b") == "\u2581a\u2581\u2581b");
  CHECK(ms::read("\u2581a\u2581\u2581b") == " a  b");
  CHECK(ms::spell("").empty());
}

TEST_CASE("metaspace: only <0x..> with two hexadecimal digits is a byte") {
  CHECK(ms::byte_of("<0x0A>") == 10);
  CHECK(ms::byte_of("<0xff>") == 255);
  CHECK(ms::byte_token(0xAB) == "<0xAB>");
  for (char const* token : {"<0x0G>", "<0x+1>", "<0x0A", "<0x0A> ", "0x000A", ""})
    CHECK_FALSE(ms::byte_of(token).has_value());
}

TEST_CASE("metaspace: a word begins at every mark, or at every run of marks") {
  using list = std::vector<std::string>;
  std::string const text = "a\u2581\u2581b\u2581";
  CHECK(words(text, false) == list{"a", "\u2581", "\u2581b", "\u2581"});
  CHECK(words(text, true) == list{"a", "\u2581\u2581b", "\u2581"});
  CHECK(ms::joins_words("a\u2581"));
  CHECK_FALSE(ms::joins_words("\u2581\u2581a"));
  CHECK_FALSE(ms::joins_words("\u2581"));
}

}  // namespace metaspace_test
