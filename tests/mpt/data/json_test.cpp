#include <doctest/doctest.h>

#include <mpt/data/json.hpp>
#include <mpt/data/scratch.hpp>
#include <string>

TEST_CASE("JSON is printed as Python's json.dumps prints it with sorted keys") {
  nlohmann::json const value{{"b", {1, 2.5, nullptr, true}}, {"a", "h\u00e9\n\"\x7f"}, {"c", {}}};
  CHECK(mpt::data::python_json(value) ==
        R"({"a": "h\u00e9\n\"\u007f", "b": [1, 2.5, null, true], "c": null})");
  CHECK(mpt::data::python_json(nlohmann::json::object()) == "{}");
  CHECK(mpt::data::python_json(nlohmann::json::array()) == "[]");
}

TEST_CASE("bad and deeply nested JSON is refused by name") {
  auto const parse = [](std::string const& text) {
    return data_test::message_of([&] { (void)mpt::data::parse_json(text, "index.json"); });
  };
  CHECK(data_test::contains(parse("{"), "index.json: not valid JSON"));
  CHECK(data_test::contains(parse("\xff"), "index.json: not valid JSON"));
  CHECK(data_test::contains(parse(std::string(100000, '[')), "nested deeper than 16"));
  CHECK(parse("[[[[1]]]]") == "no error");
}
