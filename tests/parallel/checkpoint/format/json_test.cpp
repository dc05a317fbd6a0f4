#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/json.hpp>
#include <parallel/support/files.hpp>

namespace json_test {
namespace pc = parallel::checkpoint;

std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(pc::parse_json(text, "file x")); });
}

TEST_CASE("JSON: text is parsed, and damage is reported with the file's name") {
  CHECK(pc::parse_json(R"({"a": [1, {"a": 2}], "b": {"a": 3}})", "x")["a"][1]["a"] == 2);
  for (auto const* bad : {"", "{", "{\"a\":}", "[1,]", "{\"a\":1}}", "\"\xff\"", "nul"})
    CHECK(test::contains(problem(bad), "file x: not valid JSON"));
}

TEST_CASE("JSON: a zero byte is refused, also after the value") {
  using namespace std::string_literals;
  for (auto const& bad : {"{}\0"s, "{} \0{}"s, "1\0"s, "\0"s, "[1\0]"s, "\"\0\""s})
    CHECK(test::contains(problem(bad), "file x: not valid JSON"));
  CHECK(problem("{\"a\": 1}\0\0"s) ==
        "file x: not valid JSON: a zero byte follows the first 8 bytes, as a crash may leave; "
        "restore the file");
  CHECK(test::contains(
      test::message_of([&] { pc::parse_json_in_parts("{}\0{}"s, "file x", {}, [](auto&&...) {}); }),
      "a zero byte follows the first 2 bytes"));
}

TEST_CASE("JSON: a repeated key in one object is refused") {
  CHECK(problem(R"({"a": 1, "b": {"a": 1}, "a": 2})") ==
        "file x: key \"a\" appears twice in one object");
  CHECK(test::contains(problem(R"([{"k": [], "k": 2}])"), "key \"k\" appears twice"));
}

TEST_CASE("JSON: values are taken one after the other, and not kept") {
  std::string taken;
  auto const take = [&](std::string const& name, nlohmann::json&& value) {
    taken += name + "=" + value.dump() + " ";
  };
  auto const text = R"({"l": [1, {"l": [2]}, [3]], "m": {"l": [4]}, "n": null, "l2": []})";
  auto const rest = pc::parse_json_in_parts(text, "f", "l", take);
  CHECK(taken == R"(l=1 l={"l":[2]} l=[3] )");
  CHECK(rest == nlohmann::json::parse(R"({"l": [], "m": {"l": [4]}, "n": null, "l2": []})"));
  taken.clear();
  pc::parse_json_in_parts(text, "f", {}, take);
  CHECK(taken == R"(l=[1,{"l":[2]},[3]] m={"l":[4]} n=null l2=[] )");
  CHECK_THROWS_WITH_AS(pc::parse_json_in_parts(R"({"a": 1, "b": 2, "a": 3})", "f", {}, take),
                       "f: key \"a\" appears twice in one object", parallel::error);
  taken.clear();
  pc::parse_json_in_parts(R"([[1], 2])", "f", {}, take);
  CHECK(taken.empty());
}

TEST_CASE("JSON: nesting deeper than the limit is refused, however deep") {
  auto const nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(problem(nested(pc::max_json_depth)).empty());
  CHECK(problem(nested(pc::max_json_depth + 1)) == "file x: JSON nested deeper than 64");
  CHECK(problem(std::string(10'000'000, '[')) == "file x: JSON nested deeper than 64");
}

TEST_CASE("JSON: members are looked up with their types") {
  auto const json = pc::parse_json(
      R"({"n": 7, "negative": -1, "real": 1.0, "huge": 9223372036854775808, "s": "t",
          "shape": [2, 3], "bad": [2, "3"], "long": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})",
      "x");
  CHECK(pc::natural_member(json, "n", "x") == 7);
  CHECK(pc::string_member(json, "s", "x") == "t");
  CHECK(pc::shape_member(json, "shape", "x") == std::vector<parallel::index>{2, 3});
  auto const fails = [&](auto action) { return test::message_of(action); };
  for (auto const* key : {"negative", "real", "huge", "s"})
    CHECK(test::contains(fails([&] { static_cast<void>(pc::natural_member(json, key, "x")); }),
                         "must be a whole number from 0 to 9223372036854775807"));
  CHECK(fails([&] { static_cast<void>(pc::member(json, "z", "x")); }) == "x: lacks \"z\"");
  CHECK(test::contains(fails([&] { static_cast<void>(pc::member(json["n"], "z", "x")); }),
                       "expected a JSON object, found number"));
  CHECK(test::contains(fails([&] { static_cast<void>(pc::string_member(json, "n", "x")); }),
                       "must be a string, not number"));
  CHECK(test::contains(fails([&] { static_cast<void>(pc::shape_member(json, "bad", "x")); }),
                       "\"bad\" must be a whole number"));
  CHECK(test::contains(fails([&] { static_cast<void>(pc::shape_member(json, "long", "x")); }),
                       "17 dimensions"));
  CHECK(test::contains(fails([&] { static_cast<void>(pc::array_member(json, "s", "x")); }),
                       "must be an array, not string"));
  CHECK(test::contains(fails([&] { static_cast<void>(pc::dump_json("\xff", "x")); }),
                       "x: cannot be written as JSON"));
}

}  // namespace json_test
