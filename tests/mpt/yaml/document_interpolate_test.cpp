// Tests of ${...}: the resulting value and its type, and the errors.
#include <string>

#include <doctest/doctest.h>

#include <mpt/yaml/document.hpp>
#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace interpolate_test {

inline mpt::config_node resolve(std::string const& text) {
  return mpt::resolve_references(mpt::parse_yaml(text, "f.yaml"));
}

inline std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(resolve(text)); });
}

TEST_CASE(
    "interpolation: a value that is one reference keeps the target's type and both locations") {
  auto const root = resolve(
      "v: {n: 2048, l: [1, 2], z: }\na: ${v.n}\nb: ${v.l}\nc: ${v.l.1}\n"
      "d: ${ v.z }\ne: ${a}\n");
  CHECK(root.find("a")->text == "2048");
  CHECK(!root.find("a")->is_string);
  CHECK(root.find("a")->location == "f.yaml:1:8, by ${v.n} at f.yaml:2:4");
  CHECK(root.find("b")->is_list());
  CHECK(root.find("c")->text == "2");
  CHECK(root.find("d")->is_null());
  CHECK(root.find("e")->text == "2048");
}

TEST_CASE("interpolation: a reference inside text gives a string") {
  auto const root = resolve("v: {n: 100, name: run}\na: ${v.n}ba\nb: x-${v.name}-${v.n}\n");
  CHECK(root.find("a")->text == "100ba");
  CHECK(root.find("b")->text == "x-run-100");
  CHECK(root.find("b")->is_string);
}

TEST_CASE("interpolation: an escaped reference and {run_name} are unchanged") {
  auto const root = resolve("a: ./{run_name}/x\nb: 'cost \\${x}'\n");
  CHECK(root.find("a")->text == "./{run_name}/x");
  CHECK(root.find("b")->text == "cost ${x}");
}

TEST_CASE("interpolation: an unresolvable reference is an error with its location") {
  for (auto const& [text, message] :
       test::text_cases("mpt/yaml/texts.txt", "unresolvable references"))
    CHECK(problem(text) == message);
}

TEST_CASE("interpolation: references that multiply the text reach a limit") {
  std::string text = "a0: xxxxxxxxxx\n";
  std::string lists = "a0: [1, 1]\n";
  for (int i = 1; i < 31; ++i) {
    auto const reference = "${a" + std::to_string(i - 1) + "}";
    text += "a" + std::to_string(i) + ": '" + reference + reference + "'\n";
    lists += "a" + std::to_string(i) + ": ['" + reference + "', '" + reference + "']\n";
  }
  CHECK(problem(text) != "");
  CHECK(problem(lists) != "");
  std::string chain = "a0: 1\n";
  for (int i = 1; i < 1000; ++i)
    chain += "a" + std::to_string(i) + ": ${a" + std::to_string(i - 1) + "}\n";
  CHECK(problem(chain) != "");
}

}  // namespace interpolate_test
