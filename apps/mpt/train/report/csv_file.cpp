#include <mpt/train/report/csv_file.hpp>

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <mpt/finetune/csv_rows.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

namespace mpt {
namespace {

constexpr std::string_view subject = "loggers.csv ";
constexpr std::string_view advice = "; choose another loggers.csv.filename";
constexpr std::string_view line_end = "\r\n";
constexpr std::string_view first_column = "time/batch";

/// The row of `cells`, as a line.
std::string line_of(std::vector<std::string> const& cells) {
  std::string line;
  for (auto const& cell : cells) {
    if (!line.empty() || &cell != &cells.front()) line += ',';
    line += csv_cell(cell);
  }
  line += line_end;
  return line;
}

/// The bytes of the whole rows of a table: a row ends with a line end that is not in quotes.
[[nodiscard]] std::uintmax_t bytes_of_rows(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0, offset = 0;
  bool is_quoted = false;
  std::string block(65536, '\0');
  while (file.read(block.data(), std::ssize(block)) || file.gcount() > 0)
    for (char const c : std::string_view(block.data(), static_cast<std::size_t>(file.gcount()))) {
      ++offset;
      if (c == '"') is_quoted = !is_quoted;
      if (c == '\n' && !is_quoted) bytes = offset;
    }
  if (!file.is_open() || file.bad()) parallel::files::failure(path, "cannot be read");
  return bytes;
}

/// Whether a file without a whole row begins as a table of metrics does.
[[nodiscard]] bool is_torn_header(std::filesystem::path const& path) {
  std::string begin(first_column.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  return first_column.starts_with(
      std::string_view(begin).substr(0, static_cast<std::size_t>(file.gcount())));
}

}  // namespace

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (char const c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

csv_file::csv_file(std::filesystem::path path) : path_(std::move(path)) {
  if (std::error_code unknown;
      std::filesystem::is_regular_file(path_, unknown) && !std::filesystem::is_empty(path_))
    read_columns();
  file_ = open_for_appending(path_, subject, advice);
}

void csv_file::read_columns() {
  std::uintmax_t bytes = 0;
  try {
    bytes = bytes_of_rows(path_);
    if (bytes > 0 || !is_torn_header(path_)) columns_ = finetune::csv_rows(path_).names();
  } catch (parallel::error const& problem) {
    parallel::fail(subject, problem.what(), advice);
  }
  parallel::require(columns_.empty() || columns_.front() == first_column, subject, path_.string(),
                    ": holds something else than metrics", advice);
  for (auto const& name : columns_) positions_.emplace(name, positions_.size());
  std::error_code problem;
  if (bytes < std::filesystem::file_size(path_))
    std::filesystem::resize_file(path_, bytes, problem);
  if (problem) parallel::files::failure(path_, "cannot be written", problem.value());
}

void csv_file::add(nlohmann::ordered_json const& record) {
  add_columns(record);
  std::vector<std::string> cells(columns_.size());
  for (auto const& [name, value] : record.items())
    if (auto const column = positions_.find(name); column != positions_.end())
      cells[column->second] = value.is_string() ? value.get<std::string>() : value.dump();
  file_.add(line_of(cells));
}

void csv_file::add_columns(nlohmann::ordered_json const& record) {
  auto const old_count = columns_.size();
  for (auto const& [name, value] : record.items())
    if (positions_.emplace(name, positions_.size()).second) columns_.push_back(name);
  if (columns_.size() == old_count) return;
  if (old_count == 0) return file_.add(line_of(columns_));
  auto temporary = path_;
  temporary += ".tmp";
  try {
    static_cast<void>(std::filesystem::remove(temporary));
    auto wider = appended_file(temporary);
    wider.add(line_of(columns_));
    finetune::csv_rows rows(path_);
    std::vector<std::string> cells(columns_.size());
    for (nlohmann::json row; rows.next(row);) {
      for (std::size_t i = 0; i < old_count; ++i) cells[i] = row.at(columns_[i]).get<std::string>();
      wider.add(line_of(cells));
    }
    parallel::require(wider.lost() == 0, temporary.string(), ": cannot be written");
    std::filesystem::rename(temporary, path_);
    lost_ += file_.lost();
    file_ = std::move(wider);
  } catch (std::exception const&) {  // the columns stay as they were, and the row lacks its values
    std::error_code unknown;
    std::filesystem::remove(temporary, unknown);
    ++lost_;
    while (columns_.size() > old_count) {
      positions_.erase(columns_.back());
      columns_.pop_back();
    }
  }
}

void csv_file::finish() const {
  if (auto const lost = lost_ + file_.lost(); lost > 0)
    parallel::fail<parallel::storage_error>(
        subject, path_.string(), ": ", lost,
        " rows were lost: they could not be written, as on a full disk");
}

}  // namespace mpt
