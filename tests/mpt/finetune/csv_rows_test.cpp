#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/csv_rows.hpp>
#include <string>
#include <support/text_cases.hpp>
#include <vector>

namespace csv_rows_test {

using nlohmann::json;

inline std::vector<json> rows_of(std::string_view content) {
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "f.csv", content);
  mpt::finetune::csv_rows rows(folder / "f.csv", 1000);
  std::vector<json> out;
  for (json row; rows.next(row);) out.push_back(row);
  return out;
}

inline std::string error_of(std::string_view content) {
  auto const message = data_test::message_of([&] { (void)rows_of(content); });
  auto const name = message.find("f.csv");
  return name == message.npos ? message : message.substr(name);
}

}  // namespace csv_rows_test

TEST_CASE("CSV: fields are text, and quoted fields may hold commas and line ends") {
  using namespace csv_rows_test;
  CHECK(rows_of("prompt,response\n1,\n\"a, \"\"b\"\"\n\",c\r\n\n x ,\"\"") ==
        std::vector<json>{{{"prompt", "1"}, {"response", ""}},
                          {{"prompt", "a, \"b\"\n"}, {"response", "c"}},
                          {{"prompt", " x "}, {"response", ""}}});
  CHECK(rows_of("\xEF\xBB\xBFonly\na \"quoted\" word\n") ==
        std::vector<json>{{{"only", "a \"quoted\" word"}}});
  CHECK(rows_of("a,b\n").empty());
}

TEST_CASE("CSV: a malformed table is an error with the line") {
  using namespace csv_rows_test;
  CHECK(error_of("") == "f.csv: empty; expected a line of column names");
  for (auto const& [text, message] : test::text_cases("mpt/finetune/refused.txt", "CSV"))
    CHECK(error_of(text) == message);
  CHECK(error_of("a\n\xFF\n") == "f.csv:2: field 1 is not UTF-8; convert the file");
  CHECK(error_of("a\n\"" + std::string(2000, 'x')) ==
        "f.csv:2: a row of more than 1000 bytes; is a quote mark left open?");
  CHECK(error_of("a\n" + std::string(2000, ',')) ==
        "f.csv:2: a row of more than 1000 bytes; is a quote mark left open?");
}
