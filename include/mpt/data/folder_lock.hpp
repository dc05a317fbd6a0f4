// One writer a folder: flock(2) on the folder itself, which leaves nothing behind after a crash.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
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
  explicit folder_lock(std::filesystem::path const& folder, taken policy = taken::refuse)
      : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (handle_.get() < 0) parallel::files::failure(folder, "cannot open this folder");
    int const mode = policy == taken::wait ? LOCK_EX : LOCK_EX | LOCK_NB;
    while (::flock(handle_.get(), mode) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK)
        parallel::files::failure(
            folder, "another program is writing here; wait for it or choose another folder");
      if (policy == taken::refuse) return;  // a disk without locks: nothing is held
      parallel::files::failure(folder,
                               "cannot lock this folder, which processes that write one "
                               "set together need; choose a folder on another disk");
    }
  }

 private:
  parallel::descriptor handle_;
};

}  // namespace mpt::data
