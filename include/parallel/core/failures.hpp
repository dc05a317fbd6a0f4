// failures: exceptions for the causes that a program reports by distinct exit statuses.
//
// Everything else that goes wrong is a plain `error`. A rank that was stopped because another rank
// failed throws `aborted` (comm/aborted.hpp).
#pragma once

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <parallel/core/error.hpp>

namespace parallel {

/// A rank waited for another rank until the deadline, or a rank makes no progress.
class timed_out : public error {
 public:
  using error::error;
};

/// A device has no memory left. Ordinary allocations of the host throw std::bad_alloc.
class out_of_memory : public error {
 public:
  using error::error;
};

/// A disk is full, read-only, failing or unreachable. Another try, later or on another disk, may
/// succeed.
class storage_error : public error {
 public:
  using error::error;
};

/// The system denies this process a file: a permission is missing, or too many files are open.
class access_error : public error {
 public:
  using error::error;
};

/// This process, or the system, has reached its limit on open files or on memory.
class limit_reached : public access_error {
 public:
  using access_error::access_error;
};

/// Whether `problem` is a storage_error or an access_error: the system refused to read or write a
/// file, which says nothing about the file's content.
[[nodiscard]] inline bool is_system_error(error const& problem) {
  return dynamic_cast<storage_error const*>(&problem) != nullptr ||
         dynamic_cast<access_error const*>(&problem) != nullptr;
}

/// The loss or the gradient of a training run is NaN, infinite, or far above its earlier values.
class diverged : public error {
 public:
  using error::error;
};

/// A rank has computed or holds wrong bits: its processor or memory is faulty.
class corrupted : public error {
 public:
  using error::error;
};

/// Whether the system's error `code` is a failure of the storage, or of the network that connects
/// it, rather than of a file name or a permission.
[[nodiscard]] constexpr bool is_storage_error_code(int code) {
  constexpr int disk_errors[] = {ENOSPC, EDQUOT, EROFS,   EIO,  EREMOTEIO,
                                 ENXIO,  ENODEV, EUCLEAN, EFBIG};
  constexpr int network_errors[] = {ESTALE,    ETIMEDOUT,   ENOTCONN,     EHOSTDOWN,  EHOSTUNREACH,
                                    ENETDOWN,  ENETUNREACH, ECONNREFUSED, ECONNRESET, ECONNABORTED,
                                    ESHUTDOWN, EINTR,       EAGAIN};
  return std::ranges::find(disk_errors, code) != std::end(disk_errors) ||
         std::ranges::find(network_errors, code) != std::end(network_errors);
}

/// Whether the system's error `code` says that a limit is reached.
[[nodiscard]] constexpr bool is_limit_error_code(int code) {
  return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/// Whether the system's error `code` is about what this process may do, not about the file.
[[nodiscard]] constexpr bool is_access_error_code(int code) {
  return code == EACCES || code == EPERM || is_limit_error_code(code);
}

}  // namespace parallel
