// appended_file: records appended to a file, each whole or not at all, so that one which a full or
// failing disk has lost costs no other.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

class appended_file {
 public:
  /// Writes nothing.
  appended_file() = default;

  /// Opens `path`, which is made if need be. Throws when that cannot be, as of a pipe that nobody
  /// reads.
  explicit appended_file(std::filesystem::path path)
      : path_(std::move(path)),
        handle_(
            ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)) {
    int const problem = errno;
    if (std::error_code unknown; handle_.get() < 0) {
      parallel::require(problem != ENXIO || !std::filesystem::is_fifo(path_, unknown),
                        path_.native(), ": is a pipe that nobody reads");
      parallel::files::failure(path_, "cannot be written", problem);
    }
    static_cast<void>(::fcntl(handle_.get(), F_SETFL, O_APPEND));  // writes wait for a reader
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Appends `record`; what cannot be written whole is lost and cut off again.
  void add(std::string_view record) {
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

  /// How many records are lost so far.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  std::filesystem::path path_;
  parallel::descriptor handle_;
  std::uint64_t lost_ = 0;
};

/// Opens `path` for appending; its folder is made too. `subject` and `advice` stand around the
/// message of an error, which is of the kind that the system's own is.
[[nodiscard]] inline appended_file open_for_appending(std::filesystem::path const& path,
                                                      std::string_view subject,
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
