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
                      *name, "\" appears twice");
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

void csv_rows::count_byte() {
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
  auto place = csv_place::cell_begin;
  auto opening_line = line_;  // of the last quote mark that opened a field
  fields.emplace_back();
  for (int c = input_.peek();; c = input_.peek()) {
    bool const is_quoted = place == csv_place::quotes;
    bool const is_end = !is_quoted && (c == '\n' || c == '\r' || c == text_input::end);
    if (is_end || (!is_quoted && c == ','))
      parallel::require(utf8::is_valid(fields.back()), location(), ": field ", fields.size(),
                        " is not UTF-8; convert the file");
    if (is_end) return true;
    parallel::require(c != text_input::end, input_.name(), ":", opening_line,
                      ": the quote mark that opens here is never closed");
    auto const next = csv_place_after(place, static_cast<char>(c));
    parallel::require(place != csv_place::quote_in_quotes || next != csv_place::text, input_.name(),
                      ":", input_.line(),
                      ": text after a closing quote mark; a quote mark within quotes is doubled");
    if (place == csv_place::cell_begin && next == csv_place::quotes) {
      opening_line = input_.line();
    } else if (next == csv_place::cell_begin) {
      count_byte();
      fields.emplace_back();
    } else if (next != csv_place::quote_in_quotes) {
      count_byte();
      fields.back() += static_cast<char>(c);
    }
    input_.get();
    place = next;
  }
}

}  // namespace mpt::finetune
