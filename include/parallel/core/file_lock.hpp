// file_lock: locks on open files and folders, by which programs take turns.
//
// A lock belongs to the open file description, so two descriptors of one process exclude each other
// too, and the system frees it when the program ends for any reason. Whole files are locked by
// flock(2), as Python's filelock locks them, so that its programs and ours wait for each other. NFS
// (since Linux 2.6.12, for files opened for writing), Lustre (mounted with flock), CephFS, GPFS and
// BeeGFS show such locks to all machines. flock locks no parts of a file, so numbered parts are
// locked by fcntl(2) with F_OFD_SETLK, one byte each.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include <parallel/core/file.hpp>

namespace parallel::files {

/// The result of an attempt to lock.
enum class lock_result {
  locked,
  busy,        ///< another descriptor has the lock
  unsupported  ///< the file system has no locks, or fails: errno says how
};

/// Locks the open file or folder `file`, without a wait.
[[nodiscard]] inline lock_result try_lock(int file) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno == EWOULDBLOCK ? lock_result::busy : lock_result::unsupported;
  return lock_result::locked;
}

/// Locks `file` as soon as no other descriptor has the lock.
[[nodiscard]] inline lock_result wait_for_lock(int file) {
  while (::flock(file, LOCK_EX) != 0)
    if (errno != EINTR) return lock_result::unsupported;
  return lock_result::locked;
}

/// Whether `path` names the open file `file`: who had the lock before may have removed the file,
/// and others then lock a new one.
[[nodiscard]] inline bool is_named(int file, std::filesystem::path const& path) {
  struct ::stat opened {};
  struct ::stat named {};
  return file >= 0 && ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// The lock of a byte: several descriptors may have it shared, or one exclusive.
enum class byte_lock_kind : short { shared = F_RDLCK, exclusive = F_WRLCK, none = F_UNLCK };

/// Gives `file` this lock of a byte, which the file need not have, in place of the lock of the byte
/// that it has; without a wait. Nothing changes unless the result is `locked`.
[[nodiscard]] inline lock_result try_lock_byte(int file, std::uint64_t byte, byte_lock_kind kind) {
  struct ::flock request {};
  request.l_type = static_cast<short>(kind);
  request.l_whence = SEEK_SET;
  request.l_start = static_cast<::off_t>(byte);
  request.l_len = 1;
  while (::fcntl(file, F_OFD_SETLK, &request) != 0)
    if (errno != EINTR)
      return errno == EAGAIN || errno == EACCES ? lock_result::busy : lock_result::unsupported;
  return lock_result::locked;
}

}  // namespace parallel::files
