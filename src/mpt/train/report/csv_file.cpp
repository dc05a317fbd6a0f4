#include <mpt/train/report/csv_file.hpp>

#include <fcntl.h>

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <mpt/finetune/csv_rows.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/file_lock.hpp>

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

/// Follows the bytes of a table by the rule of csv_rows.
class row_scan {
 public:
  void add(char c) {
    ++bytes_;
    if (c == '\n') ++lines_;
    place_ = finetune::csv_place_after(place_, c);
    if (place_ != place::cell_begin) return;
    if (c == ',') return void(++cells_);
    has_crlf_ = c == '\n' ? bytes_ == row_bytes_ + 1 && ends_with_cr_ : has_crlf_;
    ends_with_cr_ = c == '\r';
    row_bytes_ = bytes_;
    row_lines_ = lines_;
    cells_ = 1;
  }

  /// The bytes and the lines of the rows that have their line end.
  [[nodiscard]] std::uintmax_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] std::uint64_t row_lines() const { return row_lines_; }
  /// Whether the last line end is that of this program.
  [[nodiscard]] bool has_crlf() const { return has_crlf_; }
  /// The last byte ends a row, but is only half of a line end.
  [[nodiscard]] bool has_half_line_end() const { return ends_with_cr_ && bytes_ == row_bytes_; }
  /// The cells after the last line end.
  [[nodiscard]] std::size_t cells() const { return cells_; }
  [[nodiscard]] bool is_quote_open() const { return place_ == place::quotes; }

 private:
  using place = finetune::csv_place;

  place place_ = place::cell_begin;
  std::uintmax_t bytes_ = 0, row_bytes_ = 0;
  std::uint64_t lines_ = 0, row_lines_ = 0;
  std::size_t cells_ = 1;
  bool has_crlf_ = true, ends_with_cr_ = false;
};

[[nodiscard]] row_scan scan_rows(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  row_scan rows;
  std::string block(65536, '\0');
  while (file.read(block.data(), std::ssize(block)) || file.gcount() > 0)
    for (char const c : std::string_view(block.data(), static_cast<std::size_t>(file.gcount())))
      rows.add(c);
  if (!file.is_open() || file.bad()) parallel::files::failure(path, "cannot be read");
  return rows;
}

/// Whether a line after the first one of `path` from `offset` on is a row of `columns` by itself.
[[nodiscard]] bool has_rows_behind(std::filesystem::path const& path, std::uintmax_t offset,
                                   std::size_t columns) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    if (line.ends_with('\r')) line.pop_back();
    row_scan row;
    for (char const c : line) row.add(c);
    auto const batch = std::string_view(line).substr(0, line.find(','));
    if (row.cells() == columns && !row.is_quote_open() && !batch.empty() &&
        batch.find_first_not_of("0123456789") == std::string_view::npos)
      return true;
  }
  return false;
}

/// Locks a table, so that no other run writes into it meanwhile; no descriptor for what is no file.
[[nodiscard]] parallel::descriptor lock_of(std::filesystem::path const& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return parallel::descriptor();
  parallel::descriptor table(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // as NFS locks need
  if (parallel::files::try_lock(table.get()) == parallel::files::lock_result::busy)
    parallel::fail(subject, path.native(),
                   ": another run writes this table; give each run its own by "
                   "loggers.csv.filename=FILE");
  return table;
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
  do {
    lock_ = parallel::descriptor();
    file_ = open_for_appending(path_, subject, advice);
    lock_ = lock_of(path_);
    // another run that has just ended may have written it anew
  } while (lock_.get() >= 0 && !parallel::files::is_named(lock_.get(), path_));
  std::string missing_end;
  if (std::error_code unknown;
      std::filesystem::is_regular_file(path_, unknown) && !std::filesystem::is_empty(path_))
    missing_end = read_columns();
  if (!missing_end.empty()) file_.add(missing_end);
}

std::string csv_file::read_columns() {
  std::string missing_end;
  std::uintmax_t bytes = 0;
  try {
    auto const rows = scan_rows(path_);
    bytes = rows.row_bytes();
    if (bytes > 0 || !is_torn_header(path_)) columns_ = finetune::csv_rows(path_).names();
    parallel::require(columns_.empty() || columns_.front() == first_column, path_.string(),
                      ": holds something else than metrics");
    bool const is_torn = rows.is_quote_open() || rows.cells() != columns_.size();
    parallel::require(
        bytes == 0 || !rows.is_quote_open() || !has_rows_behind(path_, bytes, columns_.size()),
        path_.string(), ":", rows.row_lines() + 1,
        ": a quote mark of this row is never closed, and rows follow it; mend it");
    if (rows.has_half_line_end()) missing_end = "\n";
    auto const size = std::filesystem::file_size(path_);
    if (bytes > 0 && bytes < size && !is_torn && !rows.has_crlf()) {  // another program saved it
      bytes = size;
      missing_end = line_end;
    }
  } catch (parallel::error const& problem) {
    parallel::fail(subject, problem.what(), advice);
  }
  for (auto const& name : columns_) positions_.emplace(name, positions_.size());
  cut_off(bytes);
  return missing_end;
}

void csv_file::cut_off(std::uintmax_t bytes) {
  if (bytes == std::filesystem::file_size(path_)) return;
  std::string row(200, '\0');
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bytes));
  file.read(row.data(), std::ssize(row));
  row.resize(static_cast<std::size_t>(file.gcount()));
  std::error_code problem;
  std::filesystem::resize_file(path_, bytes, problem);
  if (problem) parallel::files::failure(path_, "cannot be written", problem.value());
  notes_.push_back(parallel::concat(subject, path_.string(),
                                    ": the last row had no end and was cut off: ", printable(row)));
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
    auto lock = lock_of(temporary);
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
    lock_ = std::move(lock);
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
    parallel::fail<parallel::storage_error>(subject, path_.string(), ": ", lost,
                                            " rows were lost: ", file_.loss_reason());
}

}  // namespace mpt
