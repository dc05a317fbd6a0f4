// All rows of a file of finetuning data, whatever its format.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <mpt/finetune/csv_rows.hpp>
#include <mpt/finetune/json_rows.hpp>
#include <mpt/finetune/split_files.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// Called with each row, an object of its columns, and its place ("file:line") for messages.
using use_row = std::function<void(nlohmann::json const& row, std::string_view where)>;

/// Reads a file's rows, as read_rows.
using row_reader = std::function<void(std::filesystem::path const& file, use_row const& use)>;

namespace detail {

[[nodiscard]] inline nlohmann::json parsed_row(json_rows const& rows, std::string_view text,
                                               std::string_view where) {
  try {
    return data::parse_json(text, where);
  } catch (parallel::error const& problem) {
    if (rows.is_list()) throw;
    parallel::fail(problem.what(), "; expected a row a line, or all in one list [...]");
  }
}

}  // namespace detail

/// Calls `use` with the rows of `file`, by its ending: .jsonl, .jsonlines, .ndjson, .json (lines or
/// a list) or .csv, with .gz, .zst or .zstd behind it if compressed; .parquet by `parquet`, if that
/// is given (parquet_rows.hpp has one). Errors: another ending; what `use` throws.
inline void read_rows(std::filesystem::path const& file, use_row const& use,
                      row_reader const& parquet = {}) {
  auto const ending = format_ending(file);
  if (ending == ".csv") {
    csv_rows rows(file);
    for (nlohmann::json row; rows.next(row);) use(row, rows.where());
    return;
  }
  if (ending == ".parquet") {
    parallel::require(static_cast<bool>(parquet), file.native(),
                      ": Parquet is read where Arrow's C++ library was found when this was built; "
                      "convert it: python3 -c \"import "
                      "pandas; pandas.read_parquet('IN.parquet').to_json('OUT.jsonl', "
                      "orient='records', lines=True)\"");
    parquet(file, use);
    return;
  }
  parallel::require(data::is_json_ending(ending), file.native(),
                    ": not of a format that is read; expected .jsonl, .json or .csv (.gz and .zst "
                    "too)");
  json_rows rows(file);
  for (std::string text; rows.next(text);) {
    auto const where = rows.where();
    auto const row = detail::parsed_row(rows, text, where);
    parallel::require(row.is_object(), where, ": a row of type ", row.type_name(),
                      "; expected an object of columns");
    use(row, where);
  }
}

}  // namespace mpt::finetune
