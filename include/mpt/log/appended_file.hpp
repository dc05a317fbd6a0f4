// appended_file: appends records to a file, each whole or not at all, so that a record lost to a
// full or failing disk damages no other.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

class appended_file {
 public:
  /// A file that ignores all records.
  appended_file() = default;

  /// Opens `path` and creates it if it does not exist. Throws when that fails, also for a pipe
  /// without a reader.
  explicit appended_file(std::filesystem::path path);

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Ends the file's last line if it has no line end, as after a crash or an editor, so that the
  /// next record is a line of its own. For files of lines, before the first record.
  void end_last_line();

  /// Appends `record`; a record that cannot be written whole is lost and the file is cut back. The
  /// reader of a full pipe is waited for, once for seconds, and not again until it reads.
  void add(std::string_view record);

  /// The number of records lost so far.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// Why the last of them was lost: as a clause, and the system's code.
  [[nodiscard]] std::string loss_reason() const;
  [[nodiscard]] int loss_code() const { return loss_code_; }

 private:
  /// Whether a full pipe has room now.
  [[nodiscard]] bool waits_for_room();

  std::filesystem::path path_;
  parallel::descriptor handle_;
  std::uint64_t lost_ = 0;
  int loss_code_ = 0;  // errno of the last loss
  bool is_reader_late_ = false;
};

/// Opens `path` for appending and creates its folder. An error has `subject` before and `advice`
/// after its message, and keeps its type.
[[nodiscard]] appended_file open_for_appending(std::filesystem::path const& path,
                                               std::string_view subject, std::string_view advice);

}  // namespace mpt
