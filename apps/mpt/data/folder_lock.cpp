#include <mpt/data/folder_lock.hpp>

#include <cerrno>

namespace mpt::data {

folder_lock::folder_lock(std::filesystem::path const& folder, contention policy)
    : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (handle_.get() < 0) parallel::files::failure(folder, "cannot open this folder");
  int const mode = policy == contention::wait ? LOCK_EX : LOCK_EX | LOCK_NB;
  while (::flock(handle_.get(), mode) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK)
      parallel::files::failure(
          folder, "another program is writing here; wait for it or choose another folder");
    if (policy == contention::refuse)
      return;  // a file system without locks: the folder stays unlocked
    parallel::files::failure(
        folder,
        "cannot lock this folder, as several processes that write one set together must; choose a "
        "folder on a file system that supports locks (flock)");
  }
}

}  // namespace mpt::data
