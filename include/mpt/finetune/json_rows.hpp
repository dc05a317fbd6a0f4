// Rows of a JSON file: one object in each line (JSON lines), or one list of objects over any lines.
//
// The file's first character tells the two forms apart, not its name. Memory: the longest row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <mpt/data/json.hpp>
#include <mpt/finetune/text_input.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// The most bytes that a row may have, unless a reader sets another limit.
inline constexpr std::size_t default_max_row_bytes = std::size_t{1} << 28;

class json_rows {
 public:
  explicit json_rows(std::filesystem::path const& path,
                     std::size_t max_row_bytes = default_max_row_bytes);

  [[nodiscard]] bool is_list() const { return is_list_; }

  /// Puts the next row's text into `text`; false at the end of the file.
  [[nodiscard]] bool next(std::string& text);

  /// Where the last row begins: "file:line".
  [[nodiscard]] std::string location() const { return parallel::concat(input_.name(), ":", line_); }

 private:
  void skip_space();

  // Appends one byte. It composes an error's text only where the row is too long.
  void append_byte(std::string& text, int c) const;

  [[nodiscard]] bool next_line(std::string& text);

  /// Reads the text up to the comma or bracket that ends an element, without parsing the element.
  [[nodiscard]] bool next_element(std::string& text);

  void require_element(bool is_present) const;

  text_input input_;
  std::size_t max_row_bytes_;
  bool is_list_ = false;
  bool is_at_list_begin_ = true;  // no element of the list has been read
  bool has_list_ended_ = false;   // the list's closing bracket has been read
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
