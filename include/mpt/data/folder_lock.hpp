// One writer per folder: a lock of the folder itself, which leaves nothing behind after a crash.
#pragma once

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
