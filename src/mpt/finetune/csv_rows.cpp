#include <mpt/finetune/csv_rows.hpp>

#include <algorithm>
#include <utility>

namespace mpt::finetune {

csv_rows::csv_rows(std::filesystem::path const& path, std::size_t max_row_bytes)
    : input_(path), max_row_bytes_(max_row_bytes) {
  parallel::require(read_record(names_), input_.name(), ": empty; expected a line of column names");
  for (auto name = names_.begin(); name != names_.end(); ++name) {
    parallel::require(!name->empty(), location(), ": column ", name - names_.begin() + 1,
                      " has no name");
    parallel::require(std::find(names_.begin(), name, *name) == name, location(), ": column \"",
                      *name, "\" stands twice");
  }
}

bool csv_rows::next(nlohmann::json& row) {
  if (!read_record(fields_)) return false;
  parallel::require(fields_.size() == names_.size(), location(), ": ", fields_.size(),
                    fields_.size() == 1 ? " field" : " fields", "; expected ", names_.size(),
                    ", as in the first line (a field with a comma needs quote marks)");
  row = nlohmann::json::object();
  for (std::size_t i = 0; i < names_.size(); ++i) row[names_[i]] = std::move(fields_[i]);
  return true;
}

bool csv_rows::ends_record(int c) { return c == '\n' || c == '\r' || c == text_input::end; }

void csv_rows::append_byte(std::string& field, int c) {
  field += static_cast<char>(c);
  if (++record_bytes_ > max_row_bytes_)
    parallel::fail(location(), ": a row of more than ", max_row_bytes_,
                   " bytes; is a quote mark left open?");
}

bool csv_rows::read_record(std::vector<std::string>& fields) {
  fields.clear();
  record_bytes_ = 0;
  while (input_.peek() == '\n' || input_.peek() == '\r') input_.get();
  line_ = input_.line();
  if (input_.peek() == text_input::end) return false;
  for (;;) {
    auto& field = fields.emplace_back();
    if (input_.peek() == '"')
      read_quoted(field);
    else
      while (!ends_record(input_.peek()) && input_.peek() != ',') append_byte(field, input_.get());
    parallel::require(utf8::is_valid(field), location(), ": field ", fields.size(),
                      " is not UTF-8; convert the file");
    if (input_.peek() != ',') break;
    input_.get();
    parallel::require(++record_bytes_ <= max_row_bytes_, location(), ": a row of more than ",
                      max_row_bytes_, " bytes");
  }
  return true;
}

void csv_rows::read_quoted(std::string& field) {
  auto const opening_line = input_.line();
  input_.get();
  for (;;) {
    int const c = input_.get();
    parallel::require(c != text_input::end, input_.name(), ":", opening_line,
                      ": the quote mark that opens here is never closed");
    if (c != '"') {
      append_byte(field, c);
    } else if (input_.peek() == '"') {
      append_byte(field, input_.get());
    } else {
      break;
    }
  }
  parallel::require(input_.peek() == ',' || ends_record(input_.peek()), input_.name(), ":",
                    input_.line(),
                    ": text behind a closing quote mark; a quote mark within quotes is doubled");
}

}  // namespace mpt::finetune
