#include <doctest/doctest.h>

#include <mpt/tokenizer/json_text.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <string>

namespace json_text_test {

using tokenizer_test::contains;
using tokenizer_test::message_of;

std::string error_of(std::string const& text) {
  return message_of([&] { (void)mpt::parse_json(text, "FILE"); });
}

TEST_CASE("keys may repeat in different objects, not in one") {
  CHECK(error_of(R"({"a": {"x": 1}, "b": {"x": 1}, "x": [{"x": 1}, {"x": 2}]})") == "no error");
  CHECK(error_of(R"({"a": {"x": 1}, "a": 2})") == "FILE: the key \"a\" stands twice in one object");
  CHECK(contains(error_of(R"({"a": [{"x": {}, "y": 1, "x": 2}]})"), "the key \"x\""));
}

TEST_CASE("sixteen levels are allowed, seventeen are not") {
  CHECK(error_of(std::string(16, '[') + std::string(16, ']')) == "no error");
  CHECK(contains(error_of(std::string(17, '[') + std::string(17, ']')), "deeper than 16 levels"));
  CHECK(contains(error_of(std::string(1000000, '[')), "deeper than 16 levels"));
}

TEST_CASE("bad JSON is an error with its place") {
  CHECK(contains(error_of("{\"a\": }"), "FILE: not valid JSON: "));
  CHECK(contains(error_of("{\"a\": }"), "column"));
  CHECK(contains(error_of("{} {}"), "not valid JSON"));
  CHECK(contains(error_of("\"\xC3\""), "not valid JSON"));
}

}  // namespace json_text_test
