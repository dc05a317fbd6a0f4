#include <mpt/log/appended_file.hpp>

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <system_error>
#include <utility>

#include <parallel/core/failures.hpp>

namespace mpt {

appended_file::appended_file(std::filesystem::path path)
    : path_(std::move(path)),
      handle_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)) {
  int const problem = errno;
  if (std::error_code unknown; handle_.get() < 0) {
    parallel::require(problem != ENXIO || !std::filesystem::is_fifo(path_, unknown), path_.native(),
                      ": is a pipe that nobody reads");
    parallel::files::failure(path_, "cannot be written", problem);
  }
}

void appended_file::end_last_line() {
  std::ifstream file;
  if (std::error_code unknown; std::filesystem::is_regular_file(path_, unknown))
    file.open(path_, std::ios::binary | std::ios::ate);
  if (file.tellg() > 0 && file.seekg(-1, std::ios::end).get() != '\n') add("\n");
}

void appended_file::add(std::string_view record) {
  if (handle_.get() < 0) return;
  std::size_t written = 0;
  while (written < record.size()) {
    auto const count = ::write(handle_.get(), record.data() + written, record.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && waits_for_room()) continue;
    if (count <= 0) {
      loss_code_ = count < 0 ? errno : ENOSPC;
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  if (written == record.size()) {
    is_reader_late_ = false;
    return;
  }
  ++lost_;
  struct ::stat status {};
  if (written > 0 && ::fstat(handle_.get(), &status) == 0 && S_ISREG(status.st_mode))
    static_cast<void>(::ftruncate(handle_.get(), status.st_size - static_cast<::off_t>(written)));
}

bool appended_file::waits_for_room() {
  constexpr int longest_wait = 10'000;  // milliseconds
  ::pollfd event{handle_.get(), POLLOUT, 0};
  bool const has_room = ::poll(&event, 1, is_reader_late_ ? 0 : longest_wait) > 0;
  is_reader_late_ = !has_room;
  if (!has_room) errno = EAGAIN;
  return has_room;
}

std::string appended_file::loss_reason() const {
  if (loss_code_ == EPIPE) return "its reader has left";
  if (loss_code_ == EAGAIN) return "its reader took nothing for seconds";
  if (loss_code_ == EFBIG) return "the limit on the size of files is reached (ulimit -f)";
  return "they could not be written, as on a full disk";
}

appended_file open_for_appending(std::filesystem::path const& path, std::string_view subject,
                                 std::string_view advice) {
  try {
    if (path.has_parent_path()) parallel::files::make_folders(path.parent_path());
    return appended_file(path);
  } catch (parallel::storage_error const& failed) {
    parallel::fail<parallel::storage_error>(subject, failed.what(), advice);
  } catch (parallel::limit_reached const& failed) {
    parallel::fail<parallel::limit_reached>(subject, failed.what(), advice);
  } catch (parallel::error const& failed) {
    parallel::fail(subject, failed.what(), advice);
  }
}

}  // namespace mpt
