// Files as this folder uses them: positioned reads, atomic writes, a lock on a folder.
//
// Reads go through pread, never mmap: a file that is cut short under us is an error message here,
// not a SIGBUS. A written file appears whole or not at all: temporary name, fsync, rename, fsync of
// the folder. The lock is flock(2) on the folder itself: it leaves nothing behind after a crash.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <parallel/checkpoint/file.hpp>
#include <parallel/core/error.hpp>

namespace mpt::data {

static_assert(std::endian::native == std::endian::little, "MDS files are little-endian");

namespace detail {

[[nodiscard]] inline std::string system_message(int code) {
  return std::generic_category().message(code);
}

using parallel::checkpoint::detail::descriptor;

inline void sync(descriptor const& file, std::filesystem::path const& path) {
  if (::fsync(file.get()) != 0)
    parallel::fail(path.native(), ": cannot flush to disk: ", system_message(errno));
}

inline void sync_folder(std::filesystem::path const& folder) {
  descriptor const handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0)
    parallel::fail(folder.native(), ": cannot open this folder: ", system_message(errno));
  sync(handle, folder);
}

}  // namespace detail

/// A file opened for positioned reads; safe to share between threads.
class input_file {
 public:
  /// Throws `parallel::error` unless `path` is a readable regular file.
  explicit input_file(std::filesystem::path path)
      : path_(std::move(path)), handle_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (handle_.get() < 0)
      parallel::fail(path_.native(), ": cannot open: ", detail::system_message(errno));
    struct ::stat status {};
    if (::fstat(handle_.get(), &status) != 0)
      parallel::fail(path_.native(), ": cannot stat: ", detail::system_message(errno));
    parallel::require(S_ISREG(status.st_mode), path_.native(), ": not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] std::string const& name() const { return path_.native(); }
  /// Bytes when the file was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Reads up to `count` bytes at `offset`; fewer only at the end of the file. Returns their
  /// number.
  std::size_t read_some(std::uint64_t offset, char* out, std::size_t count) const {
    std::size_t done = 0;
    while (done < count) {
      auto const got =
          ::pread(handle_.get(), out + done, count - done, static_cast<::off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        parallel::fail(name(), ": cannot read at byte ", offset + done, ": ",
                       detail::system_message(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  /// Reads exactly `count` bytes of `what` at `offset`, or throws that the file is too short.
  void read(std::uint64_t offset, char* out, std::size_t count, std::string_view what) const {
    auto const got = read_some(offset, out, count);
    parallel::require(got == count, name(), ": ends at byte ", offset + got, " inside ", what,
                      ", which needs bytes ", offset, " to ", offset + count,
                      ": the file is cut short; fetch or write it again");
  }

 private:
  std::filesystem::path path_;
  detail::descriptor handle_;
  std::uint64_t size_ = 0;
};

/// The whole content of a file that must not exceed `max_bytes`.
[[nodiscard]] inline std::string read_file(std::filesystem::path const& path,
                                           std::uint64_t max_bytes) {
  input_file const file(path);
  parallel::require(file.size() <= max_bytes, file.name(), ": has ", file.size(),
                    " bytes, more than the ", max_bytes, " allowed here");
  std::string out(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, out.data(), out.size(), "the file");
  return out;
}

/// Writes `content` so that `path` holds either its old state or all of `content`, also after a
/// crash of the machine. Leaves at most a file named `path` + ".tmp" behind when killed.
inline void write_file(std::filesystem::path const& path, std::string_view content) {
  auto temporary = path;
  temporary += ".tmp";
  {
    detail::descriptor const file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0)
      parallel::fail(temporary.native(), ": cannot create: ", detail::system_message(errno));
    std::size_t done = 0;
    while (done < content.size()) {
      auto const put = ::write(file.get(), content.data() + done, content.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0)
        parallel::fail(temporary.native(), ": cannot write: ", detail::system_message(errno));
      done += static_cast<std::size_t>(put);
    }
    detail::sync(file, temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    parallel::fail(path.native(), ": cannot rename into place: ", detail::system_message(errno));
  auto const folder = path.parent_path();
  detail::sync_folder(folder.empty() ? "." : folder);
}

/// Holds a folder for one writer while it lives; the kernel releases it when the process dies.
class folder_lock {
 public:
  /// Throws at once when another process or object holds `folder`.
  explicit folder_lock(std::filesystem::path const& folder)
      : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (handle_.get() < 0)
      parallel::fail(folder.native(), ": cannot open this folder: ", detail::system_message(errno));
    if (::flock(handle_.get(), LOCK_EX | LOCK_NB) != 0)
      parallel::fail(folder.native(), ": another program is writing here (",
                     detail::system_message(errno), "); wait for it or choose another folder");
  }

 private:
  detail::descriptor handle_;
};

namespace detail {

/// Little-endian integers at any alignment.
template <class Number>
[[nodiscard]] Number load(char const* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Number>
void store(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace detail

}  // namespace mpt::data
