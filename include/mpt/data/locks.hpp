// Locks of folders: one writer for a folder, and locks on its numbered parts, between threads,
// processes and, where they share a disk with locks, machines. None is left behind after a crash.
#pragma once

#include <cstdint>
#include <filesystem>

#include <parallel/core/file.hpp>
#include <parallel/core/file_lock.hpp>

namespace mpt::data {

/// The lock of one byte of a file, which need not have that byte (core/file_lock.hpp). One file
/// serves any number of parts, and is never removed, so no one locks a file that others no longer
/// see.
class byte_lock {
 public:
  /// Opens `file`, which must exist, and locks nothing yet.
  byte_lock(std::filesystem::path file, std::uint64_t byte);

  /// Locks the byte together with others that share it, in place of the lock that this object has.
  /// Returns whether that was possible without waiting; if not, nothing changes. Throws where the
  /// file system has no locks.
  [[nodiscard]] bool try_shared();

  /// The same, with no other lock on the byte.
  [[nodiscard]] bool try_exclusive();

  void unlock();

 private:
  [[nodiscard]] bool set(parallel::files::byte_lock_kind kind);

  std::filesystem::path path_;
  parallel::descriptor file_;
  std::uint64_t byte_;
};

/// Locks a folder for one writer during its lifetime; the kernel unlocks it when the process dies.
class folder_lock {
 public:
  /// The action when another process or object has locked the folder.
  enum class contention { refuse, wait };

  /// Throws if another writer has locked `folder` and `policy` is `refuse`. A file system without
  /// locks leaves the folder unlocked, which is an error if `policy` is `wait`.
  explicit folder_lock(std::filesystem::path const& folder, contention policy = contention::refuse);

 private:
  parallel::descriptor handle_;
};

}  // namespace mpt::data
