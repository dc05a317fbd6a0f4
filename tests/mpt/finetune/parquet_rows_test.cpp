#include <doctest/doctest.h>

#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <parquet/arrow/writer.h>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/parquet_rows.hpp>
#include <string>
#include <vector>

namespace parquet_rows_test {

using nlohmann::json;

/// Writes the rows of a JSON list to a Parquet file in row groups of two rows.
inline void write(std::filesystem::path const& path, std::shared_ptr<arrow::DataType> const& type,
                  char const* rows) {
  auto const array = arrow::json::ArrayFromJSONString(type, rows).ValueOrDie();
  auto const batch = arrow::RecordBatch::FromStructArray(array).ValueOrDie();
  auto const table = arrow::Table::FromRecordBatches({batch}).ValueOrDie();
  auto const file = arrow::io::FileOutputStream::Open(path.native()).ValueOrDie();
  REQUIRE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, 2).ok());
  REQUIRE(file->Close().ok());
}

inline std::vector<json> rows_of(std::filesystem::path const& path) {
  std::vector<json> out;
  mpt::finetune::read_rows(
      path, [&](json const& row, std::string_view) { out.push_back(row); },
      mpt::finetune::read_parquet_rows);
  return out;
}

}  // namespace parquet_rows_test

TEST_CASE("Parquet: rows are objects of texts, numbers and lists, over all row groups") {
  using namespace parquet_rows_test;
  data_test::scratch_folder const folder;
  auto const message =
      arrow::struct_({arrow::field("content", arrow::utf8()), arrow::field("role", arrow::utf8())});
  write(
      folder / "a.parquet",
      arrow::struct_(
          {arrow::field("prompt", arrow::utf8()), arrow::field("response", arrow::large_utf8()),
           arrow::field("n", arrow::int64()), arrow::field("messages", arrow::list(message))}),
      R"([{"prompt": "p\u00e9", "response": "r", "n": 3, "messages": [{"content": "a", "role": "user"}]},
            {"prompt": null, "response": "", "n": -1, "messages": []},
            {"prompt": "q", "response": "s", "n": 0, "messages": null}])");
  CHECK(rows_of(folder / "a.parquet") ==
        std::vector<json>{
            {{"prompt", "p\xc3\xa9"},
             {"response", "r"},
             {"n", 3},
             {"messages", {{{"content", "a"}, {"role", "user"}}}}},
            {{"prompt", nullptr}, {"response", ""}, {"n", -1}, {"messages", json::array()}},
            {{"prompt", "q"}, {"response", "s"}, {"n", 0}, {"messages", nullptr}}});
}

TEST_CASE("Parquet: a damaged or truncated file is an error, and so is a build without Arrow") {
  using namespace parquet_rows_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.parquet", "PAR1 but nothing else");
  CHECK(data_test::contains(data_test::message_of([&] { (void)rows_of(folder / "a.parquet"); }),
                            "a.parquet: not read as Parquet: "));
  write(folder / "b.parquet", arrow::struct_({arrow::field("prompt", arrow::utf8())}),
        R"([{"prompt": "p"}])");
  auto const content = data_test::get_file(folder / "b.parquet");
  for (std::size_t size = 0; size < content.size(); size += 7) {
    data_test::put_file(folder / "c.parquet", content.substr(0, size));
    CHECK_FALSE(data_test::message_of([&] { (void)rows_of(folder / "c.parquet"); }).empty());
  }
  CHECK(data_test::contains(
      data_test::message_of([&] {
        mpt::finetune::read_rows(folder / "b.parquet", [](json const&, std::string_view) {});
      }),
      "b.parquet: Parquet is read where Arrow's C++ library was found when this was built"));
}

TEST_CASE("Parquet: the column of texts is read over all row groups, and other columns are not") {
  using namespace parquet_rows_test;
  data_test::scratch_folder const folder;
  auto const meta = arrow::struct_({arrow::field("text", arrow::utf8())});
  write(folder / "a.parquet",
        arrow::struct_({arrow::field("meta", meta), arrow::field("text", arrow::large_utf8())}),
        R"([{"meta": {"text": "no"}, "text": "a"}, {"meta": null, "text": ""},
            {"meta": null, "text": "p\u00e9"}])");
  std::vector<std::string> texts;
  mpt::finetune::parquet_texts source(folder / "a.parquet");
  for (std::string text; source.next(text);) texts.push_back(text);
  CHECK(texts == std::vector<std::string>{"a", "", "p\xc3\xa9"});
  std::string text;
  CHECK_FALSE(source.next(text));
}

TEST_CASE("Parquet: a file without texts is an error that names its columns or the row") {
  using namespace parquet_rows_test;
  data_test::scratch_folder const folder;
  write(folder / "a.parquet", arrow::struct_({arrow::field("content", arrow::utf8())}),
        R"([{"content": "a"}])");
  CHECK(data_test::message_of([&] {
          mpt::finetune::parquet_texts const source(folder / "a.parquet");
        }).ends_with("a.parquet: has no column \"text\"; its columns are content"));
  write(folder / "b.parquet", arrow::struct_({arrow::field("text", arrow::utf8())}),
        R"([{"text": "a"}, {"text": null}])");
  mpt::finetune::parquet_texts source(folder / "b.parquet");
  std::string text;
  CHECK(source.next(text));
  CHECK(data_test::message_of([&] {
          (void)source.next(text);
        }).ends_with("b.parquet, row 2: \"text\" is of type null, expected a string"));
}
