#include <mpt/finetune/read_rows.hpp>

#include <string>

#include <mpt/data/document_reader.hpp>
#include <mpt/finetune/split_files.hpp>

namespace mpt::finetune {
namespace {

[[nodiscard]] nlohmann::json parse_row(json_rows const& rows, std::string_view text,
                                       std::string_view location) {
  try {
    return data::parse_json(text, location);
  } catch (parallel::error const& problem) {
    if (rows.is_list()) throw;
    parallel::fail(problem.what(), "; expected a row a line, or all in one list [...]");
  }
}

}  // namespace

void read_rows(std::filesystem::path const& file, row_consumer const& consume,
               row_reader const& parquet) {
  auto const ending = format_ending(file);
  if (ending == ".csv") {
    csv_rows rows(file);
    for (nlohmann::json row; rows.next(row);) consume(row, rows.location());
    return;
  }
  if (ending == ".parquet") {
    parallel::require(static_cast<bool>(parquet), file.native(), ": ", data::parquet_advice);
    parquet(file, consume);
    return;
  }
  parallel::require(data::is_json_ending(ending), file.native(),
                    ": not of a format that is read; expected .jsonl, .json or .csv (.gz and .zst "
                    "too)");
  json_rows rows(file);
  for (std::string text; rows.next(text);) {
    auto const location = rows.location();
    auto const row = parse_row(rows, text, location);
    parallel::require(row.is_object(), location, ": a row of type ", row.type_name(),
                      "; expected an object of columns");
    consume(row, location);
  }
}

}  // namespace mpt::finetune
