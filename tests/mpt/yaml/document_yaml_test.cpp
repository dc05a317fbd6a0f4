// Tests of the YAML parser: locations, aliases, limits, and the messages for refused text.
#include <string>

#include <doctest/doctest.h>

#include <mpt/yaml/document.hpp>
#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace yaml_test {

/// The message of the error, or "" without one.
inline std::string problem(std::string const& text, mpt::config_limits const& limits = {}) {
  return test::message_of([&] { static_cast<void>(mpt::parse_yaml(text, "f.yaml", limits)); });
}

TEST_CASE("YAML: every value and key has its line and column") {
  auto const root = mpt::parse_yaml("a: 1\nb:\n  c: [x, 'y']\n  d:\n", "f.yaml");
  REQUIRE(root.is_map());
  CHECK(root.find("a")->location == "f.yaml:1:4");
  auto const& b = *root.find("b");
  CHECK(root.keys[1].location == "f.yaml:2:1");
  auto const& list = *b.find("c");
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[1].location == "f.yaml:3:10");
  CHECK(!list.items[0].is_string);
  CHECK(list.items[1].is_string);
  CHECK(b.find("d")->is_null());
}

TEST_CASE("YAML: empty text is a null value") {
  CHECK(mpt::parse_yaml("", "f.yaml").is_null());
  CHECK(mpt::parse_yaml("# only a comment\n", "f.yaml").is_null());
  CHECK(mpt::parse_yaml("~", "f.yaml").is_null());
}

TEST_CASE("YAML: aliases are copies, and merge keys add missing members") {
  auto const root =
      mpt::parse_yaml("base: &b {x: 1, y: 2}\ncopy: *b\nmore:\n  <<: *b\n  y: 3\n", "f.yaml");
  CHECK(root.find("copy")->find("y")->text == "2");
  auto const& merged = *root.find("more");
  CHECK(merged.find("x")->text == "1");
  CHECK(merged.find("y")->text == "3");
  CHECK(merged.find("<<") == nullptr);
}

TEST_CASE("YAML: refused text is reported with its location") {
  for (auto const& [text, message] : test::text_cases("mpt/yaml/texts.txt", "refused YAML"))
    CHECK(problem(text) == message);
  CHECK(problem("a: \xff") == "f.yaml: byte 3 is not UTF-8 text; save the file as UTF-8");
}

TEST_CASE("YAML: aliases count as their copies against the limit") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    auto const alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int k = 1; k < 10; ++k) text += ", " + alias;
    text += "]\n";
  }
  auto const message = problem(text);
  CHECK(message.find("more than 10000 values, aliases and ${...} counted by what they stand for") !=
        std::string::npos);
}

TEST_CASE("YAML: size and depth are limited") {
  CHECK(problem("a: 12345", {.bytes = 4}) == "f.yaml: 8 bytes; a configuration has at most 4");
  CHECK(problem("a: 12345", {.scalar = 4}) ==
        "f.yaml:1:4: a scalar of 5 bytes; at most 4 are read");
  CHECK(problem("[1, 2, 3]", {.values = 3}) ==
        "f.yaml:1:8: more than 3 values, aliases and ${...} counted by what they stand for");
  CHECK(problem("[[[1]]]", {.depth = 2}) == "f.yaml:1:3: nested more than 2 levels deep");
  CHECK(problem(std::string(10'000, '[')).find("nested more than 32 levels deep") !=
        std::string::npos);
  // each alias is one level deeper than its target
  CHECK(problem("a: &a [1]\nb: &b [*a]\nc: [*b]\n", {.depth = 3}).find("nested too deeply") !=
        std::string::npos);
}

}  // namespace yaml_test
