// plain_text replaces the characters that a terminal or a browser would obey instead of showing:
// each becomes U+FFFD, the replacement character.
#include <string>

#include <doctest/doctest.h>

#include <mpt/console/plain_text.hpp>
#include <mpt/console/table.hpp>

namespace plain_text_test {

using mpt::console::plain_line;
using mpt::console::plain_text;

std::string const replacement = "\xEF\xBF\xBD";  // U+FFFD

TEST_CASE("plain text: control characters and bytes that are not UTF-8 are replaced") {
  CHECK(plain_text("a\x1b[31mred") == "a" + replacement + "[31mred");
  CHECK(plain_text("bell\x07 return\r delete\x7f") ==
        "bell" + replacement + " return" + replacement + " delete" + replacement);
  CHECK(plain_text("\xC2\x9B"
                   "31m") == replacement + "31m");  // U+009B, which terminals take for ESC [
  CHECK(plain_text("a\xff\xC3") == "a" + replacement + replacement);
  CHECK(plain_text(std::string("a\0b", 3)) == "a" + replacement + "b");
}

TEST_CASE("plain text: characters that change the direction of text are replaced") {
  // With them a file's name could appear to have another ending.
  for (char const* const direction_mark : {"\u202A", "\u202D", "\u202E", "\u2066", "\u2069"})
    CHECK(plain_text(std::string("gpj.") + direction_mark + "x") == "gpj." + replacement + "x");
}

TEST_CASE("plain text: other text stays as it is") {
  for (char const* const text : {"größer → 1", "שלום", "🙂 a\tb\n", "\u00A0"})
    CHECK(plain_text(text) == text);
}

TEST_CASE("plain text: plain_line shows line ends and tabs as spaces") {
  CHECK(plain_line("a\nb\tc") == "a b c");
}

TEST_CASE("plain text: line ends and control characters in a table's cells do not break it") {
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
