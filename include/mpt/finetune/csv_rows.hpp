// Rows of a CSV file (RFC 4180): names of columns in the first line, then a record a row.
//
// Fields are text as they stand: none is taken for a number, and an empty one is empty. A field in
// quote marks may hold commas, line ends and, doubled, quote marks. Lines without anything are
// skipped. Memory: the longest row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/finetune/json_rows.hpp>
#include <mpt/finetune/text_input.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

class csv_rows {
 public:
  /// Reads the names. Errors: no line; a name that is empty or stands twice.
  explicit csv_rows(std::filesystem::path const& path, std::size_t most = largest_row)
      : input_(path), most_(most) {
    parallel::require(read_record(names_), input_.name(),
                      ": empty; expected a line of column names");
    for (auto name = names_.begin(); name != names_.end(); ++name) {
      parallel::require(!name->empty(), where(), ": column ", name - names_.begin() + 1,
                        " has no name");
      parallel::require(std::find(names_.begin(), name, *name) == name, where(), ": column \"",
                        *name, "\" stands twice");
    }
  }

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }

  /// Puts the next row into `row` as an object of strings; false at the end of the file.
  [[nodiscard]] bool next(nlohmann::json& row) {
    if (!read_record(fields_)) return false;
    parallel::require(fields_.size() == names_.size(), where(), ": ", fields_.size(),
                      fields_.size() == 1 ? " field" : " fields", "; expected ", names_.size(),
                      ", as in the first line (a field with a comma needs quote marks)");
    row = nlohmann::json::object();
    for (std::size_t i = 0; i < names_.size(); ++i) row[names_[i]] = std::move(fields_[i]);
    return true;
  }

  /// Where the last row begins: "file:line".
  [[nodiscard]] std::string where() const { return parallel::concat(input_.name(), ":", line_); }

 private:
  [[nodiscard]] static bool ends_record(int c) {
    return c == '\n' || c == '\r' || c == text_input::end;
  }

  // Called for each byte: no sentence is made unless it is needed.
  void append(std::string& field, int c) {
    field += static_cast<char>(c);
    if (++bytes_ > most_)
      parallel::fail(where(), ": a row of more than ", most_, " bytes; is a quote mark left open?");
  }

  [[nodiscard]] bool read_record(std::vector<std::string>& fields) {
    fields.clear();
    bytes_ = 0;
    while (input_.peek() == '\n' || input_.peek() == '\r') input_.get();
    line_ = input_.line();
    if (input_.peek() == text_input::end) return false;
    for (;;) {
      auto& field = fields.emplace_back();
      if (input_.peek() == '"')
        read_quoted(field);
      else
        while (!ends_record(input_.peek()) && input_.peek() != ',') append(field, input_.get());
      parallel::require(utf8::is_valid(field), where(), ": field ", fields.size(),
                        " is not UTF-8; convert the file");
      if (input_.peek() != ',') break;
      input_.get();
      parallel::require(++bytes_ <= most_, where(), ": a row of more than ", most_, " bytes");
    }
    return true;
  }

  void read_quoted(std::string& field) {
    auto const begins = input_.line();
    input_.get();
    for (;;) {
      int const c = input_.get();
      parallel::require(c != text_input::end, input_.name(), ":", begins,
                        ": the quote mark that opens here is never closed");
      if (c != '"') {
        append(field, c);
      } else if (input_.peek() == '"') {
        append(field, input_.get());
      } else {
        break;
      }
    }
    parallel::require(input_.peek() == ',' || ends_record(input_.peek()), input_.name(), ":",
                      input_.line(),
                      ": text behind a closing quote mark; a quote mark within quotes is doubled");
  }

  text_input input_;
  std::size_t most_;
  std::size_t bytes_ = 0;  // of this record
  std::uint64_t line_ = 1;
  std::vector<std::string> names_;
  std::vector<std::string> fields_;
};

}  // namespace mpt::finetune
