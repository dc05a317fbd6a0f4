// Rows of a JSON file: an object a line (JSON lines), or one list of objects over any lines.
//
// Which of the two it is, its first character says, not its name. Memory: the longest row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <mpt/data/json.hpp>
#include <mpt/finetune/text_input.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// The most bytes a row may have.
inline constexpr std::size_t largest_row = std::size_t{1} << 28;

class json_rows {
 public:
  explicit json_rows(std::filesystem::path const& path, std::size_t most = largest_row)
      : input_(path), most_(most) {
    skip_space();
    list_ = input_.peek() == '[';
    if (list_) input_.get();
  }

  /// Whether the file is one list of rows.
  [[nodiscard]] bool is_list() const { return list_; }

  /// Puts the next row's text into `text`; false at the end of the file.
  [[nodiscard]] bool next(std::string& text) {
    text.clear();
    skip_space();
    line_ = input_.line();
    return list_ ? next_element(text) : next_line(text);
  }

  /// Where the last row begins: "file:line".
  [[nodiscard]] std::string where() const { return parallel::concat(input_.name(), ":", line_); }

 private:
  void skip_space() {
    for (int c = input_.peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = input_.peek())
      input_.get();
  }

  // Called for each byte: no sentence is made unless it is needed.
  void append(std::string& text, int c) const {
    text += static_cast<char>(c);
    if (text.size() > most_)
      parallel::fail(where(), ": a row of more than ", most_,
                     " bytes; is this JSON lines, or a list of objects?");
  }

  [[nodiscard]] bool next_line(std::string& text) {
    for (int c = input_.get(); c != text_input::end && c != '\n'; c = input_.get()) append(text, c);
    return !text.empty();
  }

  /// The text up to the comma or bracket that ends an element; what is in it is for a parser.
  [[nodiscard]] bool next_element(std::string& text) {
    if (ended_ || input_.peek() == ']') {
      require_element(first_ || ended_);
      if (!ended_) input_.get();
      ended_ = true;
      skip_space();
      parallel::require(input_.peek() == text_input::end, input_.name(), ":", input_.line(),
                        ": text behind the list of rows; expected the end of the file");
      return false;
    }
    first_ = false;
    int depth = 0;
    for (bool string = false, escaped = false;;) {
      int const c = input_.peek();
      if (c == text_input::end)
        parallel::fail(where(),
                       ": the file ends within the row that begins here; expected \"]\" "
                       "behind the last one: the file is cut short");
      if (!string && depth == 0 && (c == ',' || c == ']')) break;
      input_.get();
      append(text, c);
      if (string) {
        if (!escaped && c == '"') string = false;
        escaped = !escaped && c == '\\';
      } else if (c == '"') {
        string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (--depth < 0) parallel::fail(where(), ": a bracket closes that none opened");
      }
    }
    require_element(!text.empty());
    ended_ = input_.get() == ']';
    return true;
  }

  void require_element(bool there) const {
    parallel::require(there, input_.name(), ":", input_.line(),
                      ": a row is missing beside a comma; expected an object");
  }

  text_input input_;
  std::size_t most_;
  bool list_ = false;
  bool first_ = true;   // of the list: nothing has been read
  bool ended_ = false;  // of the list: its bracket has been read
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
