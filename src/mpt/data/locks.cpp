#include <mpt/data/locks.hpp>

#include <fcntl.h>

#include <utility>

#include <parallel/core/file_lock.hpp>

namespace mpt::data {

byte_lock::byte_lock(std::filesystem::path file, std::uint64_t byte)
    : path_(std::move(file)), file_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)), byte_(byte) {
  if (file_.get() < 0) parallel::files::failure(path_, "cannot open this file of locks");
}

bool byte_lock::try_shared() { return set(parallel::files::byte_lock_kind::shared); }

bool byte_lock::try_exclusive() { return set(parallel::files::byte_lock_kind::exclusive); }

void byte_lock::unlock() { static_cast<void>(set(parallel::files::byte_lock_kind::none)); }

bool byte_lock::set(parallel::files::byte_lock_kind kind) {
  auto const result = parallel::files::try_lock_byte(file_.get(), byte_, kind);
  if (result == parallel::files::lock_result::unsupported)
    parallel::files::failure(
        path_,
        "cannot lock this file, by which processes share the folder; choose a folder on a file "
        "system that has locks");
  return result == parallel::files::lock_result::locked;
}

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
