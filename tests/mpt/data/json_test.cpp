#include <doctest/doctest.h>

#include <mpt/data/json.hpp>

TEST_CASE("python_json: the text equals that of Python's json.dumps with sorted keys") {
  nlohmann::json const value{{"b", {1, 2.5, nullptr, true}}, {"a", "h\u00e9\n\"\x7f"}, {"c", {}}};
  CHECK(mpt::data::python_json(value) ==
        R"({"a": "h\u00e9\n\"\u007f", "b": [1, 2.5, null, true], "c": null})");
  CHECK(mpt::data::python_json(nlohmann::json::object()) == "{}");
  CHECK(mpt::data::python_json(nlohmann::json::array()) == "[]");
}
