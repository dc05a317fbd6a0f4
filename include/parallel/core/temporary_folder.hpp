// A folder for temporary files.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <parallel/core/file.hpp>

namespace parallel {

/// An empty folder that is removed, with what is in it, with this object.
class temporary_folder {
 public:
  /// Makes it in `parent`, under a new name that begins with `prefix`.
  temporary_folder(std::filesystem::path const& parent, std::string const& prefix) {
    auto name = (parent / (prefix + "XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr)
      files::failure(name, "cannot create this folder");
    path_ = name;
  }
  temporary_folder(temporary_folder&&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace parallel
