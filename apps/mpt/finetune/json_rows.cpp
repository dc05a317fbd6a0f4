#include <mpt/finetune/json_rows.hpp>

namespace mpt::finetune {

json_rows::json_rows(std::filesystem::path const& path, std::size_t most)
    : input_(path), most_(most) {
  skip_space();
  list_ = input_.peek() == '[';
  if (list_) input_.get();
}

bool json_rows::next(std::string& text) {
  text.clear();
  skip_space();
  line_ = input_.line();
  return list_ ? next_element(text) : next_line(text);
}

void json_rows::skip_space() {
  for (int c = input_.peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = input_.peek())
    input_.get();
}

void json_rows::append(std::string& text, int c) const {
  text += static_cast<char>(c);
  if (text.size() > most_)
    parallel::fail(where(), ": a row of more than ", most_,
                   " bytes; is this JSON lines, or a list of objects?");
}

bool json_rows::next_line(std::string& text) {
  for (int c = input_.get(); c != text_input::end && c != '\n'; c = input_.get()) append(text, c);
  return !text.empty();
}

bool json_rows::next_element(std::string& text) {
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

void json_rows::require_element(bool there) const {
  parallel::require(there, input_.name(), ":", input_.line(),
                    ": a row is missing beside a comma; expected an object");
}

}  // namespace mpt::finetune
