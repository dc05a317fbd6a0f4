// appended_file: records appended to a file, each whole or not at all, so that one which a full or
// failing disk has lost costs no other.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

class appended_file {
 public:
  /// Writes nothing.
  appended_file() = default;

  /// Opens `path`, which is made if need be. Throws when that cannot be, as of a pipe that nobody
  /// reads.
  explicit appended_file(std::filesystem::path path);

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Appends `record`; what cannot be written whole is lost and cut off again.
  void add(std::string_view record);

  /// How many records are lost so far.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  std::filesystem::path path_;
  parallel::descriptor handle_;
  std::uint64_t lost_ = 0;
};

/// Opens `path` for appending; its folder is made too. `subject` and `advice` stand around the
/// message of an error, which is of the kind that the system's own is.
[[nodiscard]] appended_file open_for_appending(std::filesystem::path const& path,
                                               std::string_view subject, std::string_view advice);

}  // namespace mpt
