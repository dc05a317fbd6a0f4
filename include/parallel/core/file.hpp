// file: files and folders by POSIX calls: positioned reads and writes, flushing, renaming.
//
// Reads use pread, never mmap: a file that is truncated while it is read gives an error, not a
// SIGBUS. A writer puts everything on disk and then makes it visible by one rename. Every error
// names the path and quotes the system's message. A writer calls its `action_hook` with the name of
// each action before the action: tests stop a writer at any point by it, and programs report
// progress.
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
using action_hook = std::function<void(std::string_view)>;

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

/// Calls the hook, unless it is empty, with the name of the action that follows.
inline void announce(action_hook const& hook, std::string_view name) {
  if (hook) hook(name);
}

/// Throws the error for a failed call of the system; its kind says whether disk or limits are at
/// fault.
[[noreturn]] inline void failure(std::filesystem::path const& path, std::string_view action,
                                 int code = errno) {
  auto const text =
      concat(path.native(), ": ", action, ": ", std::generic_category().message(code));
  if (code == EFBIG)
    fail<storage_error>(text, "; raise the limit on the size of files (ulimit -f)");
  if (is_storage_error_code(code)) fail<storage_error>(text);
  if (code == EMFILE) fail<limit_reached>(text, "; raise the limit on open files (ulimit -n)");
  if (is_limit_error_code(code)) fail<limit_reached>(text);
  if (is_access_error_code(code)) fail<access_error>(text);
  fail(text);
}

/// The folder that holds `path`.
[[nodiscard]] inline std::filesystem::path parent_folder(std::filesystem::path const& path) {
  auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

/// Flushes an open file or folder to the disk. Returns true if that succeeded, and also if the file
/// system has no such request, as some network and FUSE file systems: then nothing more can be
/// done. Otherwise sets errno.
[[nodiscard]] inline bool flush(int file) {
  return ::fsync(file) == 0 || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/// Makes renames and new files in `folder` durable: they survive a loss of power.
inline void sync_folder(std::filesystem::path const& folder) {
  descriptor const handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) failure(folder, "cannot open this folder");
  if (!flush(handle.get())) failure(folder, "cannot flush this folder to disk");
}

/// Whether anything has this name, even a broken link. Throws if the system does not tell.
[[nodiscard]] inline bool exists(std::filesystem::path const& path) {
  struct ::stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) failure(path, "cannot look for this name");
  return false;
}

/// The paths of the entries of `folder`, in no particular order.
[[nodiscard]] inline std::vector<std::filesystem::path> list(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    out.push_back(entry->path());
  if (problem) failure(folder, "cannot list this folder", problem.value());
  return out;
}

/// Renames a file or folder, replacing a file of the new name.
inline void rename(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    failure(to, concat("cannot rename ", from.filename().native(), " to this name"));
}

/// Creates a folder whose parent exists.
inline void make_folder(std::filesystem::path const& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) failure(folder, "cannot create this folder");
}

/// Creates `folder` and its missing parents. Their names are flushed: otherwise a loss of power
/// could remove a folder together with files that were flushed in it.
inline void make_folders(std::filesystem::path const& folder) {
  std::error_code problem;
  std::vector<std::filesystem::path> missing;
  for (auto ancestor = std::filesystem::absolute(folder);
       !std::filesystem::exists(ancestor, problem); ancestor = ancestor.parent_path()) {
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(ancestor, problem)))
      fail(ancestor.native(), ": is a link to ",
           std::filesystem::read_symlink(ancestor, problem).native(),
           ", which is not there; create that folder, mount the disk that it is on, or remove the "
           "link");
    missing.push_back(ancestor);
  }
  std::filesystem::create_directories(folder, problem);
  if (problem) failure(folder, "cannot create this folder", problem.value());
  for (auto const& created : missing) sync_folder(created.parent_path());
}

/// Throws if a folder between `root` and `path` is a link: what is written below it would be
/// elsewhere.
inline void require_no_links(std::filesystem::path const& root, std::filesystem::path const& path) {
  auto folder = root;
  for (auto const& name : path.parent_path().lexically_relative(root)) {
    if (name == ".") continue;
    folder /= name;
    std::error_code absent;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(folder, absent)))
      fail(folder.native(), ": is a link to ",
           std::filesystem::read_symlink(folder, absent).native(),
           ", and nothing is written through links here; remove it");
  }
}

/// Removes a file, or a folder with all that it holds.
inline void remove_tree(std::filesystem::path const& path) {
  std::error_code problem;
  std::filesystem::remove_all(path, problem);
  if (problem) failure(path, "cannot remove", problem.value());
}

}  // namespace files

/// Whether `name` is one plain file name: no folders, no "..", no control characters.
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

  /// Reads from byte `offset` on and returns the number of bytes. It is less than out.size() only
  /// at the end of the file.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const {
    std::size_t read_bytes = 0;
    while (read_bytes < out.size()) {
      auto const count = ::pread(handle_.get(), out.data() + read_bytes, out.size() - read_bytes,
                                 static_cast<::off_t>(offset + read_bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) files::failure(path_, concat("cannot read at byte ", offset + read_bytes));
      if (count == 0) break;
      read_bytes += static_cast<std::size_t>(count);
    }
    return read_bytes;
  }

  /// Asks the system to drop its cached pages of the file, so that later reads come from the disk.
  /// Pages that are not yet on the disk stay. Not every file system can do this.
  void forget_cached() const {
    static_cast<void>(::posix_fadvise(handle_.get(), 0, 0, POSIX_FADV_DONTNEED));
  }

  /// Fills `out` from byte `offset` on. Throws if the file is too short; the message calls what was
  /// read `content`.
  void read(std::uint64_t offset, std::span<std::byte> out, std::string_view content) const {
    auto const count = read_some(offset, out);
    require(count == out.size(), name(), ": ends at byte ", offset + count, " inside ", content,
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

/// A file that is written at any offset. A link is not followed, and a pipe not waited for.
class output_file {
 public:
  /// The treatment of an existing file: `refuse` throws, `replace` truncates it, `keep` writes into
  /// it and throws if it does not exist.
  enum class existing { refuse, replace, keep };

  /// Opens or creates `path`. Throws if that fails or contradicts `policy`.
  output_file(std::filesystem::path path, existing policy)
      : path_(std::move(path)),
        handle_(::open(path_.c_str(),
                       O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
                           (policy == existing::keep
                                ? 0
                                : O_CREAT | (policy == existing::replace ? O_TRUNC : O_EXCL)),
                       0666)) {
    if (handle_.get() >= 0) return;
    int const problem = errno;
    require(problem != ELOOP, path_.native(),
            ": is a link, and nothing is written through it; remove it, or name what it leads to");
    files::failure(path_, policy == existing::keep ? "cannot open" : "cannot create", problem);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Writes all of `bytes` at `offset`.
  void write(std::uint64_t offset, std::span<std::byte const> bytes) const {
    std::size_t written_bytes = 0;
    while (written_bytes < bytes.size()) {
      auto const count =
          ::pwrite(handle_.get(), bytes.data() + written_bytes, bytes.size() - written_bytes,
                   static_cast<::off_t>(offset + written_bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        files::failure(path_, concat("cannot write at byte ", offset + written_bytes),
                       count < 0 ? errno : ENOSPC);
      written_bytes += static_cast<std::size_t>(count);
    }
  }

  /// Returns when everything that was written is on disk.
  void sync() const {
    if (!files::flush(handle_.get())) files::failure(path_, "cannot flush to disk");
  }

 private:
  std::filesystem::path path_;
  descriptor handle_;
};

/// Writes a small file and flushes it. It is not atomic; use it for files in a temporary folder.
inline void write_text_file(std::filesystem::path const& path, std::string_view content,
                            action_hook const& on_action = {}) {
  files::announce(on_action, "create file");
  output_file const file(path, output_file::existing::replace);
  files::announce(on_action, "write file");
  file.write(0, std::as_bytes(std::span(content)));
  files::announce(on_action, "flush file");
  file.sync();
}

/// Writes a file atomically: `path` holds either its old content or all of `content`, also after a
/// crash of the machine. If the process is killed, a file `path` + ".tmp" may remain; if the
/// storage fails, that file is removed.
inline void replace_text_file(std::filesystem::path const& path, std::string_view content,
                              action_hook const& on_action = {}) {
  auto temporary = path;
  temporary += ".tmp";
  try {
    write_text_file(temporary, content, on_action);
  } catch (storage_error const&) {
    static_cast<void>(::unlink(temporary.c_str()));
    throw;
  }
  files::announce(on_action, "rename file");
  files::rename(temporary, path);
  files::announce(on_action, "flush folder");
  files::sync_folder(files::parent_folder(path));
}

}  // namespace parallel
