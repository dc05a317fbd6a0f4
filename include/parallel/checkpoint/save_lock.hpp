// One program at a time writes an export. (Of checkpoints, which take long: folder_claim.hpp.)
//
// The lock is a file beside what is written, held by flock(2) while a program writes, so the system
// frees it when the program dies, however it dies. Its text says who holds it. NFS (since Linux
// 2.6.12), Lustre (mounted with flock), CephFS, GPFS and BeeGFS make such locks known to all
// machines; on a disk that has none at all nothing is held.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <parallel/checkpoint/this_process.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace parallel::checkpoint {

/// Held while this lives. The file goes when it ends; what a killed program left behind is taken
/// over.
class save_lock {
 public:
  /// Takes the lock of `path`, whose folder is there. Throws when another holds it, with what it
  /// says of itself: process, machine, since when. `what`: what is locked, for that message.
  save_lock(std::filesystem::path path, std::filesystem::path const& what)
      : path_(std::move(path)) {
    for (int tries = 0;;) {
      handle_ = descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
      if (handle_.get() < 0)
        files::failure(path_, "cannot create this file, which locks its folder");
      if (::flock(handle_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) break;  // a disk without locks
        auto const who = holder();
        require(who.empty() && ++tries < 100, what.native(), ": another program is writing here (",
                who.empty() ? "it has not said which" : who,
                "); wait for it, or choose another folder");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it is about to say so
        continue;
      }
      if (is_mine()) break;
    }
    auto const text = name_of_this_process() + "\n";
    if (::ftruncate(handle_.get(), 0) != 0 ||
        ::pwrite(handle_.get(), text.data(), text.size(), 0) < 0)
      return;  // a full disk: the lock is held all the same, without words
  }
  save_lock(save_lock const&) = delete;
  save_lock& operator=(save_lock const&) = delete;
  ~save_lock() { static_cast<void>(::unlink(path_.c_str())); }  // before the descriptor closes

 private:
  /// Whether the path still names the file that is locked: who held it before removes it.
  [[nodiscard]] bool is_mine() const {
    struct ::stat locked {};
    struct ::stat named {};
    return ::fstat(handle_.get(), &locked) == 0 && ::stat(path_.c_str(), &named) == 0 &&
           locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
  }
  [[nodiscard]] std::string holder() const {
    std::array<char, 400> text{};
    auto const got = ::pread(handle_.get(), text.data(), text.size(), 0);
    std::string out(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    out.resize(std::min(out.size(), out.find('\n')));
    return out;
  }

  std::filesystem::path path_;
  descriptor handle_;
};

}  // namespace parallel::checkpoint
