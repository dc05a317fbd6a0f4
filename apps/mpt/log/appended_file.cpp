#include <mpt/log/appended_file.hpp>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace mpt {

appended_file::appended_file(std::filesystem::path path)
    : path_(std::move(path)),
      handle_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (handle_.get() < 0) parallel::files::failure(path_, "cannot be written");
}

void appended_file::add(std::string_view record) {
  if (handle_.get() < 0) return;
  std::size_t done = 0;
  while (done < record.size()) {
    auto const put = ::write(handle_.get(), record.data() + done, record.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  if (done == record.size()) return;
  ++lost_;
  struct ::stat status {};
  if (done > 0 && ::fstat(handle_.get(), &status) == 0 && S_ISREG(status.st_mode))
    static_cast<void>(::ftruncate(handle_.get(), status.st_size - static_cast<::off_t>(done)));
}

}  // namespace mpt
