#include <mpt/data/folder_lock.hpp>

#include <fcntl.h>

#include <parallel/core/file_lock.hpp>

namespace mpt::data {

folder_lock::folder_lock(std::filesystem::path const& folder, contention policy)
    : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (handle_.get() < 0) parallel::files::failure(folder, "cannot open this folder");
  auto const result = policy == contention::wait ? parallel::files::wait_for_lock(handle_.get())
                                                 : parallel::files::try_lock(handle_.get());
  if (result == parallel::files::lock_result::busy)
    parallel::files::failure(
        folder, "another program is writing here; wait for it or choose another folder");
  if (result == parallel::files::lock_result::unsupported && policy == contention::wait)
    parallel::files::failure(
        folder,
        "cannot lock this folder, as several processes that write one set together must; choose a "
        "folder on a file system that supports locks (flock)");
}

}  // namespace mpt::data
