#include <mpt/data/byte_lock.hpp>

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace mpt::data {

byte_lock::byte_lock(std::filesystem::path file, std::uint64_t byte)
    : path_(std::move(file)), file_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)), byte_(byte) {
  if (file_.get() < 0) parallel::files::failure(path_, "cannot open this file of locks");
}

bool byte_lock::try_shared() { return set(F_RDLCK); }

bool byte_lock::try_exclusive() { return set(F_WRLCK); }

void byte_lock::unlock() { static_cast<void>(set(F_UNLCK)); }

bool byte_lock::set(short type) {
  struct ::flock request {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = static_cast<::off_t>(byte_);
  request.l_len = 1;
  while (::fcntl(file_.get(), F_OFD_SETLK, &request) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    parallel::files::failure(
        path_,
        "cannot lock this file, by which processes share the folder; choose a folder on a file "
        "system that has locks");
  }
  return true;
}

}  // namespace mpt::data
