// Rows of a JSON file: an object a line (JSON lines), or one list of objects over any lines.
//
// Which of the two it is, its first character says, not its name. Memory: the longest row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <mpt/data/json.hpp>
#include <mpt/finetune/text_input.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// The most bytes a row may have.
inline constexpr std::size_t largest_row = std::size_t{1} << 28;

class json_rows {
 public:
  explicit json_rows(std::filesystem::path const& path, std::size_t most = largest_row);

  /// Whether the file is one list of rows.
  [[nodiscard]] bool is_list() const { return list_; }

  /// Puts the next row's text into `text`; false at the end of the file.
  [[nodiscard]] bool next(std::string& text);

  /// Where the last row begins: "file:line".
  [[nodiscard]] std::string where() const { return parallel::concat(input_.name(), ":", line_); }

 private:
  void skip_space();

  // Called for each byte: no sentence is made unless it is needed.
  void append(std::string& text, int c) const;

  [[nodiscard]] bool next_line(std::string& text);

  /// The text up to the comma or bracket that ends an element; what is in it is for a parser.
  [[nodiscard]] bool next_element(std::string& text);

  void require_element(bool there) const;

  text_input input_;
  std::size_t most_;
  bool list_ = false;
  bool first_ = true;   // of the list: nothing has been read
  bool ended_ = false;  // of the list: its bracket has been read
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
