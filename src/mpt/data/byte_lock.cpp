#include <mpt/data/byte_lock.hpp>

#include <fcntl.h>

#include <utility>

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

}  // namespace mpt::data
