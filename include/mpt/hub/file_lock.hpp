// file_lock: one process at a time for one file, by flock(2) as Python's filelock has it, so that
// the hub's own programs and ours wait for each other.
#pragma once

#include <filesystem>
#include <functional>

#include <parallel/core/file.hpp>

namespace mpt::hub {

/// Locks a file during its lifetime. The kernel unlocks it when the process dies.
class file_lock {
 public:
  /// Makes `file` and its folder where they are absent. Waits while another process has the lock,
  /// and calls `on_wait` once before that. A file system without locks leaves it unlocked.
  explicit file_lock(std::filesystem::path const& file, std::function<void()> const& on_wait = {});

 private:
  parallel::descriptor handle_;
};

}  // namespace mpt::hub
