// journal: a file of lines on their way to a tracker. One thread appends while another reads, and
// what could not be sent is still there for a later program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <mpt/log/appended_file.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {

/// Another program appends to the journal or sends it.
class journal_in_use : public parallel::error {
 public:
  using parallel::error::error;
};

class journal {
 public:
  /// Opens `path`, whose lines stay, or makes it with its folder. A line that a killed program left
  /// without an end is cut off. Throws where the file cannot be written, and journal_in_use where
  /// another process has it open as a journal.
  explicit journal(std::filesystem::path path);

  /// Whether another journal object, as a rule of another process, has the file open.
  [[nodiscard]] static bool is_in_use(std::filesystem::path const& path);

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Appends a line, which has no line end. Returns false where it is lost, as on a full disk.
  bool append(std::string_view line);

  /// The bytes of all whole lines. Any thread may call it.
  [[nodiscard]] std::size_t size() const { return size_; }

  /// The lines that were lost, as on a full disk.
  [[nodiscard]] std::uint64_t lost() const { return file_.lost(); }

  /// Whole lines from `offset` on, of `most_bytes` at most, or the first line alone where that is
  /// longer. Any thread may call it. Throws storage_error.
  [[nodiscard]] std::string read(std::size_t offset, std::size_t most_bytes) const;

  /// The last whole line with its line end; "" of an empty journal. Throws storage_error.
  [[nodiscard]] std::string last_line() const;

  /// The lines from `offset` on; -1 where the file cannot be read.
  [[nodiscard]] std::int64_t count_lines(std::size_t offset) const;

  /// Whether the file still has its name: another program may have deleted it.
  [[nodiscard]] bool exists() const;

  /// Deletes the file.
  void remove();

 private:
  /// Opens the file and locks it.
  void open();

  std::filesystem::path path_;
  appended_file file_;
  parallel::descriptor reader_;
  std::atomic<std::size_t> size_ = 0;
  std::size_t last_line_begin_ = 0;  // the appending thread's
};

}  // namespace mpt::trackers
