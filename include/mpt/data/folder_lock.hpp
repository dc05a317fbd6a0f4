// One writer a folder: flock(2) on the folder itself, which leaves nothing behind after a crash.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include <parallel/core/file.hpp>

namespace mpt::data {

/// Holds a folder for one writer while it lives; the kernel releases it when the process dies.
class folder_lock {
 public:
  /// What to do when another process or object holds the folder.
  enum class taken { refuse, wait };

  /// Throws when `folder` is held by another and `policy` refuses. On a disk without locks nothing
  /// is held, which is an error where `policy` waits for others.
  explicit folder_lock(std::filesystem::path const& folder, taken policy = taken::refuse);

 private:
  parallel::descriptor handle_;
};

}  // namespace mpt::data
