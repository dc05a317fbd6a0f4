#include <doctest/doctest.h>

#include <mpt/data/byte_order_mark.hpp>
#include <mpt/data/scratch.hpp>
#include <string_view>

TEST_CASE("byte order mark: it has three bytes in UTF-8 text and none in text without a mark") {
  using mpt::data::byte_order_mark;
  CHECK(byte_order_mark("\xEF\xBB\xBFtext", "f") == 3);
  CHECK(byte_order_mark("\xEF\xBB\xBF", "f") == 3);
  for (std::string_view const text : {"", "text", "\xEF\xBB", "\xFF", "x\xFF\xFE"})
    CHECK(byte_order_mark(text, "f") == 0);
}

TEST_CASE(
    "byte order mark: text in UTF-16 or UTF-32 is refused with the command that converts it") {
  using namespace std::string_view_literals;
  auto const error = [](std::string_view text) {
    return data_test::message_of([&] { (void)mpt::data::byte_order_mark(text, "a.txt"); });
  };
  auto const utf_16 =
      "a.txt: is text in UTF-16 by its byte order mark, and UTF-8 is read; convert it: iconv -f "
      "UTF-16 -t UTF-8 IN > OUT";
  CHECK(error("\xFF\xFEh\0i\0"sv) == utf_16);
  CHECK(error("\xFE\xFF\0h\0i"sv) == utf_16);
  CHECK(error("\xFF\xFE"sv) == utf_16);
  CHECK(error("\xFF\xFE\0\0h\0\0\0"sv).starts_with("a.txt: is text in UTF-32"));
  CHECK(error("\0\0\xFE\xFF\0\0\0h"sv).starts_with("a.txt: is text in UTF-32"));
}
