#include <mpt/trackers/journal.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <parallel/core/file_lock.hpp>

namespace mpt::trackers {
namespace {

constexpr std::size_t block = std::size_t{64} << 10;

/// Reads up to `bytes` at `offset`; fewer at the end of the file.
[[nodiscard]] std::string read_at(int file, std::filesystem::path const& path, std::size_t offset,
                                  std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t filled = 0;
  while (filled < bytes) {
    auto const count =
        ::pread(file, text.data() + filled, bytes - filled, static_cast<::off_t>(offset + filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) parallel::files::failure(path, "cannot be read");
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  text.resize(filled);
  return text;
}

/// Locks a journal for this process, after a moment of patience: is_in_use() holds a lock briefly.
void lock_file(int file, std::filesystem::path const& path) {
  using parallel::files::lock_result;
  for (int tries = 0;; ++tries) {
    auto const result = parallel::files::try_lock(file);
    if (result == lock_result::locked) return;
    if (result == lock_result::unsupported) parallel::files::failure(path, "cannot be locked");
    if (tries == 10)
      parallel::fail<journal_in_use>(path.string(),
                                     ": another program sends these metrics; wait for it");
    ::poll(nullptr, 0, 10);
  }
}

}  // namespace

bool journal::is_in_use(std::filesystem::path const& path) {
  parallel::descriptor const file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.get() >= 0 &&
         parallel::files::try_lock(file.get()) == parallel::files::lock_result::busy;
}

void journal::open() {
  auto const open_file = [this] {
    return open_for_appending(path_, "the journal ", "; metrics for trackers are kept there");
  };
  do {
    file_ = open_file();
    reader_ = parallel::descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));  // as NFS locks need
    if (reader_.get() < 0 && errno == ENOENT) continue;
    if (reader_.get() < 0) parallel::files::failure(path_, "cannot be read");
    lock_file(reader_.get(), path_);
  } while (!parallel::files::is_named(reader_.get(), path_));  // who held the lock has deleted it
  file_ = open_file();
}

journal::journal(std::filesystem::path path) : path_(std::move(path)) {
  open();
  std::size_t offset = 0, end_of_lines = 0;
  for (std::string text; !(text = read_at(reader_.get(), path_, offset, block)).empty();
       offset += text.size())
    for (std::size_t end = 0; (end = text.find('\n', end)) != std::string::npos;) {
      last_line_begin_ = end_of_lines;
      end_of_lines = offset + ++end;
    }
  if (end_of_lines < offset && ::truncate(path_.c_str(), static_cast<::off_t>(end_of_lines)) != 0)
    parallel::files::failure(path_, "cannot be written");
  size_ = end_of_lines;
}

bool journal::append(std::string_view line) {
  auto const lost = file_.lost();
  file_.add(std::string(line) + '\n');
  if (file_.lost() != lost) return false;
  last_line_begin_ = size_;
  size_ += line.size() + 1;
  return true;
}

std::string journal::last_line() const {
  return read_at(reader_.get(), path_, last_line_begin_, size_ - last_line_begin_);
}

std::string journal::read(std::size_t offset, std::size_t most_bytes) const {
  auto const available = size_.load() - std::min(offset, size_.load());
  if (available == 0) return {};
  auto text = read_at(reader_.get(), path_, offset, std::min(available, most_bytes));
  if (auto const last = text.rfind('\n'); last != std::string::npos) {
    text.resize(last + 1);
    return text;
  }
  while (text.size() < available) {  // a line longer than most_bytes
    auto const continued = read_at(reader_.get(), path_, offset + text.size(),
                                   std::min(block, available - text.size()));
    if (continued.empty()) break;
    auto const end = continued.find('\n');
    text += continued.substr(0, end == std::string::npos ? end : end + 1);
    if (end != std::string::npos) return text;
  }
  parallel::fail<parallel::storage_error>(path_.string(), ": was cut short by another program");
}

std::int64_t journal::count_lines(std::size_t offset) const {
  try {
    std::int64_t lines = 0;
    while (offset < size_) {
      auto const text = read_at(reader_.get(), path_, offset, std::min(block, size_ - offset));
      if (text.empty()) break;
      lines += std::count(text.begin(), text.end(), '\n');
      offset += text.size();
    }
    return lines;
  } catch (parallel::error const&) {
    return -1;
  }
}

bool journal::exists() const {
  std::error_code unknown;
  return std::filesystem::exists(path_, unknown);
}

void journal::remove() {
  std::error_code unknown;
  std::filesystem::remove(path_, unknown);
}

}  // namespace mpt::trackers
