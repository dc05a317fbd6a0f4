// Files and folders by POSIX calls: positioned reads and writes, flushing, renaming.
//
// Reads go through pread, never mmap: a file cut short under us is an error here, not a SIGBUS.
// What is written becomes visible by one rename after everything is on disk. Every error names the
// path and the system's own words. `step_hook` is called before each action of a writer with its
// name; it lets tests stop it at any point, and programs report progress.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

namespace parallel {

/// Called with the name of the action about to happen; may throw to stop it. May be empty.
using step_hook = std::function<void(std::string_view)>;

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int value = -1) : value_(value) {}
  descriptor(descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

namespace files {

inline void step(step_hook const& hook, std::string_view name) {
  if (hook) hook(name);
}

[[noreturn]] inline void failure(std::filesystem::path const& path, std::string_view action,
                                 int code = errno) {
  auto const text =
      concat(path.native(), ": ", action, ": ", std::generic_category().message(code));
  if (code == EFBIG)
    fail<storage_error>(text, "; raise the limit on the size of files (ulimit -f)");
  if (is_of_storage(code)) fail<storage_error>(text);
  if (code == EMFILE) fail<limit_reached>(text, "; raise the limit on open files (ulimit -n)");
  if (is_of_limit(code)) fail<limit_reached>(text);
  if (is_of_access(code)) fail<access_error>(text);
  fail(text);
}

/// The folder that holds `path`.
[[nodiscard]] inline std::filesystem::path parent_of(std::filesystem::path const& path) {
  auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

/// Asks that what was written to an open file or folder reaches the disk. Returns whether it did,
/// or its file system, as some of networks and of programs (FUSE), knows no such request: then
/// nothing more can be done. Sets errno otherwise.
[[nodiscard]] inline bool flush(int file) {
  return ::fsync(file) == 0 || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/// Makes renames and new files in `folder` survive a loss of power.
inline void sync_folder(std::filesystem::path const& folder) {
  descriptor const handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) failure(folder, "cannot open this folder");
  if (!flush(handle.get())) failure(folder, "cannot flush this folder to disk");
}

/// Whether anything, a broken link too, has this name. Throws where the system does not tell.
[[nodiscard]] inline bool exists(std::filesystem::path const& path) {
  struct ::stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) failure(path, "cannot look for this name");
  return false;
}

/// What is in `folder`, in no order.
[[nodiscard]] inline std::vector<std::filesystem::path> list(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    out.push_back(at->path());
  if (problem) failure(folder, "cannot list this folder", problem.value());
  return out;
}

inline void rename(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    failure(to, concat("cannot rename ", from.filename().native(), " to this name"));
}

inline void make_folder(std::filesystem::path const& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) failure(folder, "cannot create this folder");
}

/// Creates it, and the folders it is in, where they are missing. Their names are flushed, so that a
/// loss of power does not take with them what is flushed in them later.
inline void make_folders(std::filesystem::path const& folder) {
  std::error_code problem;
  std::vector<std::filesystem::path> missing;
  for (auto at = std::filesystem::absolute(folder); !std::filesystem::exists(at, problem);
       at = at.parent_path()) {
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(at, problem)))
      fail(at.native(), ": is a link to ", std::filesystem::read_symlink(at, problem).native(),
           ", which is not there; create that folder, mount what it lies on, or remove the link");
    missing.push_back(at);
  }
  std::filesystem::create_directories(folder, problem);
  if (problem) failure(folder, "cannot create this folder", problem.value());
  for (auto const& made : missing) sync_folder(made.parent_path());
}

inline void remove_tree(std::filesystem::path const& path) {
  std::error_code problem;
  std::filesystem::remove_all(path, problem);
  if (problem) failure(path, "cannot remove", problem.value());
}

}  // namespace files

/// Whether `name` is one plain file name: no folders, no "..", nothing that cannot be printed.
[[nodiscard]] inline bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  for (char const character : name)
    if (character == '/' || character == '\\' || static_cast<unsigned char>(character) < 0x20 ||
        character == 0x7f)
      return false;
  return true;
}

/// A regular file opened for positioned reads; may be shared between threads.
class input_file {
 public:
  /// Throws unless `path` is a readable regular file.
  explicit input_file(std::filesystem::path path)
      : path_(std::move(path)),
        handle_(
            ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO must not block
    if (handle_.get() < 0) files::failure(path_, "cannot open");
    struct ::stat status {};
    if (::fstat(handle_.get(), &status) != 0) files::failure(path_, "cannot stat");
    require(S_ISREG(status.st_mode), path_.native(), ": not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] std::string const& name() const { return path_.native(); }
  /// Bytes when the file was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Reads into `out` from byte `offset` on; less than all of it only at the end of the file.
  /// Returns the number of bytes.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      auto const got = ::pread(handle_.get(), out.data() + done, out.size() - done,
                               static_cast<::off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) files::failure(path_, concat("cannot read at byte ", offset + done));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  /// Asks the system to forget what it remembers of the file, so that reading asks the disk. It
  /// keeps what is not on the disk yet, and does nothing where it cannot.
  void forget_cached() const {
    static_cast<void>(::posix_fadvise(handle_.get(), 0, 0, POSIX_FADV_DONTNEED));
  }

  /// Fills `out` from byte `offset` on; throws when the file ends before that.
  void read(std::uint64_t offset, std::span<std::byte> out, std::string_view what) const {
    auto const got = read_some(offset, out);
    require(got == out.size(), name(), ": ends at byte ", offset + got, " inside ", what,
            ", which needs bytes ", offset, " to ", offset + out.size(),
            ": the file is cut short; fetch or write it again");
  }

 private:
  std::filesystem::path path_;
  descriptor handle_;
  std::uint64_t size_ = 0;
};

/// The whole content of a file of at most `max_bytes`.
[[nodiscard]] inline std::string read_text_file(std::filesystem::path const& path,
                                                std::uint64_t max_bytes) {
  input_file const file(path);
  require(file.size() <= max_bytes, file.name(), ": has ", file.size(), " bytes, more than the ",
          max_bytes, " allowed for such a file");
  std::string out(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(out)), "the file");
  return out;
}

/// A new file, written at any offset.
class output_file {
 public:
  /// What may stand at the path already; `keep`: a file must, and is written into.
  enum class existing { refuse, replace, keep };

  /// Creates `path`. Throws when it cannot, or stands there already and `policy` refuses.
  output_file(std::filesystem::path path, existing policy)
      : path_(std::move(path)),
        handle_(::open(path_.c_str(),
                       O_WRONLY | O_CLOEXEC |
                           (policy == existing::keep
                                ? 0
                                : O_CREAT | (policy == existing::replace ? O_TRUNC : O_EXCL)),
                       0666)) {
    if (handle_.get() < 0)
      files::failure(path_, policy == existing::keep ? "cannot open" : "cannot create");
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Writes all of `bytes` at `offset`.
  void write(std::uint64_t offset, std::span<std::byte const> bytes) const {
    std::size_t done = 0;
    while (done < bytes.size()) {
      auto const put = ::pwrite(handle_.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<::off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0)
        files::failure(path_, concat("cannot write at byte ", offset + done),
                       put < 0 ? errno : ENOSPC);
      done += static_cast<std::size_t>(put);
    }
  }

  /// Returns when everything written is on disk.
  void sync() const {
    if (!files::flush(handle_.get())) files::failure(path_, "cannot flush to disk");
  }

 private:
  std::filesystem::path path_;
  descriptor handle_;
};

/// Writes a small file and flushes it. Not atomic: for files inside a temporary folder.
inline void write_text_file(std::filesystem::path const& path, std::string_view content,
                            step_hook const& on_step = {}) {
  files::step(on_step, "create file");
  output_file const file(path, output_file::existing::replace);
  files::step(on_step, "write file");
  file.write(0, std::as_bytes(std::span(content)));
  files::step(on_step, "flush file");
  file.sync();
}

/// Writes a file so that `path` holds either its old state or all of `content`, also after a crash
/// of the machine. Leaves at most a file named `path` + ".tmp" behind when killed; nothing where
/// the disk does not take it.
inline void replace_text_file(std::filesystem::path const& path, std::string_view content,
                              step_hook const& on_step = {}) {
  auto temporary = path;
  temporary += ".tmp";
  try {
    write_text_file(temporary, content, on_step);
  } catch (storage_error const&) {
    static_cast<void>(::unlink(temporary.c_str()));
    throw;
  }
  files::step(on_step, "rename file");
  files::rename(temporary, path);
  files::step(on_step, "flush folder");
  files::sync_folder(files::parent_of(path));
}

}  // namespace parallel
