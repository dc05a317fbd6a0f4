// One writer per folder: flock(2) on the folder itself, which leaves nothing behind after a crash.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include <parallel/core/file.hpp>

namespace mpt::data {

/// Locks a folder for one writer during its lifetime; the kernel unlocks it when the process dies.
class folder_lock {
 public:
  /// The action when another process or object has locked the folder.
  enum class contention { refuse, wait };

  /// Throws if another writer has locked `folder` and `policy` is `refuse`. A file system without
  /// locks leaves the folder unlocked, which is an error if `policy` is `wait`.
  explicit folder_lock(std::filesystem::path const& folder, contention policy = contention::refuse);

 private:
  parallel::descriptor handle_;
};

}  // namespace mpt::data
