#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/json_rows.hpp>
#include <string>
#include <support/text_cases.hpp>
#include <utility>
#include <vector>

namespace json_rows_test {

using located_rows = std::vector<std::pair<std::string, std::string>>;  // line and text

inline located_rows rows_of(std::string_view content, std::size_t max_bytes = 1000) {
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "f.json", content);
  mpt::finetune::json_rows rows(folder / "f.json", max_bytes);
  located_rows out;
  for (std::string text; rows.next(text);) {
    auto const location = rows.location();
    out.emplace_back(location.substr(location.rfind(':') + 1), text);
  }
  return out;
}

inline std::string error_of(std::string_view content, std::size_t max_bytes = 1000) {
  auto const message = data_test::message_of([&] { (void)rows_of(content, max_bytes); });
  auto const name = message.find("f.json:");
  return name == message.npos ? message : message.substr(name);
}

}  // namespace json_rows_test

TEST_CASE("JSON rows: a file has one row in each line, or a list over any lines") {
  using namespace json_rows_test;
  CHECK(rows_of("{\"a\": 1}\n\n  {\"a\": 2}\r\n{\"a\": 3}") ==
        located_rows{{"1", "{\"a\": 1}"}, {"3", "{\"a\": 2}\r"}, {"4", "{\"a\": 3}"}});
  CHECK(rows_of("\xEF\xBB\xBF{}\n") == located_rows{{"1", "{}"}});
  CHECK(rows_of(" [ {\"a\": \"],\\\"{\"},\n\n{\"b\":\n [1, {}]} ]\n") ==
        located_rows{{"1", "{\"a\": \"],\\\"{\"}"}, {"3", "{\"b\":\n [1, {}]} "}});
  CHECK(rows_of("[]\n").empty());
  CHECK(rows_of("").empty());
  CHECK(rows_of(" \n\n").empty());
}

TEST_CASE("JSON rows: a truncated or malformed list is an error with the line") {
  using namespace json_rows_test;
  for (auto const& [text, message] : test::text_cases("mpt/finetune/refused.txt", "JSON rows"))
    CHECK(error_of(text) == message);
  CHECK(error_of("[\"" + std::string(2000, 'x')) ==
        "f.json:1: a row of more than 1000 bytes; is this JSON lines, or a list of objects?");
  CHECK(error_of("{\n" + std::string(2000, 'x')) ==
        "f.json:2: a row of more than 1000 bytes; is this JSON lines, or a list of objects?");
}
