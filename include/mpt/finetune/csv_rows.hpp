// csv_rows: reads the rows of a CSV file (RFC 4180), which has names of columns in the first line,
// then one record for each row.
//
// Fields are text: numbers are not converted, and an empty field is an empty text. A field in quote
// marks may hold commas, line ends and doubled quote marks. Empty lines are skipped. Memory: the
// longest row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/finetune/json_rows.hpp>
#include <mpt/finetune/text_input.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// A place in a table, between two of its bytes.
enum class csv_place { cell_begin, text, quotes, quote_in_quotes };

/// The place after byte `c`: a quote mark opens a quoted cell only at the cell's beginning, and a
/// row ends with a line end that is not in quotes.
[[nodiscard]] constexpr csv_place csv_place_after(csv_place place, char c) {
  if (place == csv_place::quotes) return c == '"' ? csv_place::quote_in_quotes : csv_place::quotes;
  if (c == '"' && place != csv_place::text) return csv_place::quotes;  // opens them, or is doubled
  return c == ',' || c == '\n' || c == '\r' ? csv_place::cell_begin : csv_place::text;
}

class csv_rows {
 public:
  /// Reads the names of the columns. Errors: a file without a line; a name that is empty or occurs
  /// twice.
  explicit csv_rows(std::filesystem::path const& path,
                    std::size_t max_row_bytes = default_max_row_bytes);

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }

  /// Puts the next row into `row` as an object of strings. Returns false at the end of the file.
  [[nodiscard]] bool next(nlohmann::json& row);

  /// The beginning of the last row that `next` read: "file:line".
  [[nodiscard]] std::string location() const { return parallel::concat(input_.name(), ":", line_); }

 private:
  /// Counts a byte of the current record. Throws when the record is too long.
  void count_byte();

  [[nodiscard]] bool read_record(std::vector<std::string>& fields);

  text_input input_;
  std::size_t max_row_bytes_;
  std::size_t record_bytes_ = 0;  // the size of the current record
  std::uint64_t line_ = 1;
  std::vector<std::string> names_;
  std::vector<std::string> fields_;
};

}  // namespace mpt::finetune
