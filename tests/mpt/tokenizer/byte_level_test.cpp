#include <doctest/doctest.h>

#include <mpt/tokenizer/byte_level.hpp>
#include <set>
#include <string>

namespace byte_level_test {

TEST_CASE("byte level: every byte is spelt as its own character and read back") {
  std::set<char32_t> seen;
  for (unsigned byte = 0; byte < 256; ++byte) {
    auto const spelt = mpt::byte_level::spell(static_cast<unsigned char>(byte));
    CHECK(mpt::byte_level::read(spelt) == std::string(1, static_cast<char>(byte)));
    CHECK(seen.insert(mpt::byte_level::spelling[byte]).second);
  }
  CHECK(mpt::byte_level::spell(" the\n") == "\u0120the\u010A");
  CHECK(mpt::byte_level::spelling[0xAD] ==
        0x143);  // the last of the 68 bytes with another spelling
}

TEST_CASE("byte level: a token with a character that spells no byte stands for itself") {
  CHECK(mpt::byte_level::read("a b") == "a b");  // a space is spelt U+0120
  CHECK(mpt::byte_level::read("\u4E2D") == "\u4E2D");
  CHECK(mpt::byte_level::read("\u0144") == "\u0144");
}

TEST_CASE("byte level: thirteen bytes never occur in UTF-8") {
  int absent_bytes = 0;
  for (std::size_t byte = 0; byte < 256; ++byte)
    absent_bytes += mpt::byte_level::occurs_in_utf8(byte) ? 0 : 1;
  CHECK(absent_bytes == 13);
}

}  // namespace byte_level_test
