// appended_file: records appended to a file, each whole or not at all, so that one which a full or
// failing disk has lost costs no other.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <parallel/core/file.hpp>

namespace mpt {

class appended_file {
 public:
  /// Writes nothing.
  appended_file() = default;

  /// Opens `path`, which is made if need be. Throws when that cannot be.
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

}  // namespace mpt
