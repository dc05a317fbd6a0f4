#include <mpt/hub/file_lock.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace mpt::hub {
namespace {

/// Waits for the lock of an open file. Returns at once where the file system has no locks.
void wait_for_lock(int file, std::function<void()> const& on_wait, bool& has_waited) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  if (on_wait && !has_waited) on_wait();
  has_waited = true;
  while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {
  }
}

}  // namespace

file_lock::file_lock(std::filesystem::path const& file, std::function<void()> const& on_wait) {
  parallel::files::make_folders(parallel::files::parent_folder(file));
  for (bool has_waited = false;;) {
    handle_ = parallel::descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664));
    if (handle_.get() < 0) parallel::files::failure(file, "cannot create this lock");
    wait_for_lock(handle_.get(), on_wait, has_waited);
    struct ::stat locked {
    }, named{};
    if (::fstat(handle_.get(), &locked) == 0 && ::stat(file.c_str(), &named) == 0 &&
        locked.st_ino == named.st_ino && locked.st_dev == named.st_dev)
      return;  // otherwise the last holder removed it: others lock a new file
  }
}

}  // namespace mpt::hub
