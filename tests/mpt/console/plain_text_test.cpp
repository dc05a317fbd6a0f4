// What a terminal or a browser would obey is shown as a replacement character.
#include <string>

#include <doctest/doctest.h>

#include <mpt/console/plain_text.hpp>
#include <mpt/console/table.hpp>

namespace plain_text_test {

using mpt::console::plain_line;
using mpt::console::plain_text;

std::string const replacement = "\xEF\xBF\xBD";

TEST_CASE("plain text: escapes of terminals and bytes that are not UTF-8 are replaced") {
  CHECK(plain_text("a\x1b[31mred") == "a" + replacement + "[31mred");
  CHECK(plain_text("bell\x07 return\r delete\x7f") ==
        "bell" + replacement + " return" + replacement + " delete" + replacement);
  CHECK(plain_text("\xC2\x9B"
                   "31m") == replacement + "31m");  // U+009B, which begins an escape in one byte
  CHECK(plain_text("a\xff\xC3") == "a" + replacement + replacement);
  CHECK(plain_text(std::string("a\0b", 3)) == "a" + replacement + "b");
}

TEST_CASE("plain text: characters that turn the direction of text around are replaced") {
  for (char const* const turning : {"\u202A", "\u202D", "\u202E", "\u2066", "\u2069"})
    CHECK(plain_text(std::string("gpj.") + turning + "x") == "gpj." + replacement + "x");
}

TEST_CASE("plain text: other text stays as it is") {
  for (char const* const text : {"größer → 1", "שלום", "🙂 a\tb\n", "\u00A0"})
    CHECK(plain_text(text) == text);
  CHECK(plain_line("a\nb\tc") == "a b c");
}

TEST_CASE("plain text: tables keep their form whatever their cells hold") {
  mpt::console::table table("plan of a\nb\x1b[2J");
  table.row("name\x07", "1\n2");
  auto const text = table.text();
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("plan of a b" + replacement + "[2J") != std::string::npos);
  CHECK(text.find("name" + replacement + "  1 2") != std::string::npos);
  auto const rows = mpt::console::markdown_table({{"task\x1b", "n"}, {"a\nb", "1"}}, {false, true});
  CHECK(rows == "| task" + replacement + " |   n |\n|:------|----:|\n| a b   |   1 |\n");
}

}  // namespace plain_text_test
