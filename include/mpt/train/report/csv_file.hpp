// csv_file: a table of metrics with one row a record, as RFC 4180 has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/log/appended_file.hpp>

namespace mpt {

/// Text as one cell: quoted where it contains a comma, a quote or a line break.
[[nodiscard]] std::string csv_cell(std::string_view text);

/// The columns are the names of the records. A record with a new name adds a column: the file is
/// then rewritten (cost: its size), in place of the old one, and earlier rows are blank there.
class csv_file {
 public:
  /// Opens `path`, whose rows stay and whose columns go on, or makes it with its folder. A row that
  /// a killed program left without an end is cut off, which a note tells. Throws for a file that is
  /// not such a table or that another run writes, and where rows follow a quote mark that is never
  /// closed.
  explicit csv_file(std::filesystem::path path);

  void add(nlohmann::ordered_json const& record);

  /// Messages for the user since the last call.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  /// Throws a storage_error when rows were lost, as on a full disk.
  void finish() const;

 private:
  /// Reads the columns of an existing file, and cuts off a torn row. Returns the rest of a line end
  /// that the last row lacks.
  [[nodiscard]] std::string read_columns();

  /// Cuts the file off after `bytes`, where it is longer.
  void cut_off(std::uintmax_t bytes);

  /// Adds columns for the names that have none.
  void add_columns(nlohmann::ordered_json const& record);

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::vector<std::string> notes_;
  std::unordered_map<std::string, std::size_t> positions_;  ///< of the columns, by name
  appended_file file_;
  parallel::descriptor lock_;  ///< of the file, for this run alone; of no other kind of output
  std::uint64_t lost_ = 0;     ///< rows lost in files that were written anew since
};

}  // namespace mpt
