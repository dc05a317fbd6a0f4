#include <mpt/finetune/json_rows.hpp>

namespace mpt::finetune {

json_rows::json_rows(std::filesystem::path const& path, std::size_t max_row_bytes)
    : input_(path), max_row_bytes_(max_row_bytes) {
  skip_space();
  is_list_ = input_.peek() == '[';
  if (is_list_) input_.get();
}

bool json_rows::next(std::string& text) {
  text.clear();
  skip_space();
  line_ = input_.line();
  return is_list_ ? next_element(text) : next_line(text);
}

void json_rows::skip_space() {
  for (int c = input_.peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = input_.peek())
    input_.get();
}

void json_rows::append_byte(std::string& text, int c) const {
  text += static_cast<char>(c);
  if (text.size() > max_row_bytes_)
    parallel::fail(location(), ": a row of more than ", max_row_bytes_,
                   " bytes; is this JSON lines, or a list of objects?");
}

bool json_rows::next_line(std::string& text) {
  for (int c = input_.get(); c != text_input::end && c != '\n'; c = input_.get())
    append_byte(text, c);
  return !text.empty();
}

bool json_rows::next_element(std::string& text) {
  if (has_list_ended_ || input_.peek() == ']') {
    require_element(is_at_list_begin_ || has_list_ended_);
    if (!has_list_ended_) input_.get();
    has_list_ended_ = true;
    skip_space();
    parallel::require(input_.peek() == text_input::end, input_.name(), ":", input_.line(),
                      ": text after the list of rows; expected the end of the file");
    return false;
  }
  is_at_list_begin_ = false;
  int depth = 0;
  for (bool in_string = false, escaped = false;;) {
    int const c = input_.peek();
    if (c == text_input::end)
      parallel::fail(location(),
                     ": the file ends within the row that begins here; expected \"]\" "
                     "after the last row: the file is cut short");
    if (!in_string && depth == 0 && (c == ',' || c == ']')) break;
    input_.get();
    append_byte(text, c);
    if (in_string) {
      if (!escaped && c == '"') in_string = false;
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth < 0)
        parallel::fail(location(), ": a closing bracket has no opening one; expected an object");
    }
  }
  require_element(!text.empty());
  has_list_ended_ = input_.get() == ']';
  return true;
}

void json_rows::require_element(bool is_present) const {
  parallel::require(is_present, input_.name(), ":", input_.line(),
                    ": no row before or after a comma; expected an object");
}

}  // namespace mpt::finetune
