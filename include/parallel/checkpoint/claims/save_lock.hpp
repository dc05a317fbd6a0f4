// save_lock: lets one program at a time write an export. (Checkpoints are written for longer and
// use folder_claim.hpp.)
//
// The lock is that of a file next to the export, held while a program writes (file_lock.hpp). The
// file's text names the holder. On a file system without locks, save_lock does not protect.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <parallel/checkpoint/claims/this_process.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/file_lock.hpp>

namespace parallel::checkpoint {

/// A lock, held while this object lives. The destructor removes the lock's file. A file that a
/// killed program has left behind is reused.
class save_lock {
 public:
  /// Takes the lock of `path`, whose folder exists. Throws when another program holds it; the
  /// message quotes what that program wrote about itself: process, machine and start. `target`: the
  /// export, for the message.
  save_lock(std::filesystem::path path, std::filesystem::path const& target)
      : path_(std::move(path)) {
    for (int tries = 0;;) {
      handle_ = descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
      if (handle_.get() < 0)
        files::failure(path_, "cannot create this file, which locks its folder");
      auto const result = files::try_lock(handle_.get());
      if (result == files::lock_result::unsupported) break;
      if (result == files::lock_result::busy) {
        auto const holder_text = holder();
        require(holder_text.empty() && ++tries < 100, target.native(),
                ": another program is writing here (",
                holder_text.empty() ? "its lock file does not name it" : holder_text,
                "); wait for it, or choose another folder");
        std::this_thread::sleep_for(
            std::chrono::milliseconds(1));  // the holder is about to write its name
        continue;
      }
      if (files::is_named(handle_.get(), path_)) break;
    }
    auto const text = name_of_this_process() + "\n";
    if (::ftruncate(handle_.get(), 0) != 0 ||
        ::pwrite(handle_.get(), text.data(), text.size(), 0) < 0)
      return;  // a full disk: the lock is held all the same, without text
  }
  save_lock(save_lock&&) = delete;
  ~save_lock() { static_cast<void>(::unlink(path_.c_str())); }  // before the descriptor closes

 private:
  /// The first line of the locked file, which the holder wrote; empty if it has written none yet.
  [[nodiscard]] std::string holder() const {
    std::array<char, 400> text{};
    auto const read_bytes = ::pread(handle_.get(), text.data(), text.size(), 0);
    std::string out(text.data(), read_bytes > 0 ? static_cast<std::size_t>(read_bytes) : 0);
    out.resize(std::min(out.size(), out.find('\n')));
    return out;
  }

  std::filesystem::path path_;
  descriptor handle_;
};

}  // namespace parallel::checkpoint
