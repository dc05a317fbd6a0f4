// failures: errors whose cause matters to whoever started the program, who reads its exit status.
//
// Everything else that goes wrong is a plain `error`; a rank that was stopped because another one
// failed throws `aborted` (comm/aborted.hpp).
#pragma once

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <parallel/core/error.hpp>

namespace parallel {

/// A rank waited for another one to the deadline, or one stands still.
class timed_out : public error {
 public:
  using error::error;
};

/// A device has no memory left. Of the host's, std::bad_alloc says so.
class out_of_memory : public error {
 public:
  using error::error;
};

/// A disk is full, read-only, failing or out of reach: trying again later, or elsewhere, may help.
class storage_error : public error {
 public:
  using error::error;
};

/// The system does not let this process have a file: a right is missing, or too many are open.
class access_error : public error {
 public:
  using error::error;
};

/// A limit of this process, or of the system, is reached: of open files or of memory.
class limit_reached : public access_error {
 public:
  using access_error::access_error;
};

/// Whether `problem` says that the system did not let something be read or written, which tells
/// nothing of what is there: a storage_error or an access_error.
[[nodiscard]] inline bool is_of_system(error const& problem) {
  return dynamic_cast<storage_error const*>(&problem) != nullptr ||
         dynamic_cast<access_error const*>(&problem) != nullptr;
}

/// The loss or the gradient of a training run is NaN, infinite, or far above those before.
class diverged : public error {
 public:
  using error::error;
};

/// A rank has computed, or holds, other bits than it should: its processor or memory is faulty.
class corrupted : public error {
 public:
  using error::error;
};

/// Whether the system's error `code` is of the storage, or the network that it is behind, not of a
/// name or a right.
[[nodiscard]] constexpr bool is_of_storage(int code) {
  constexpr int of_disks[] = {ENOSPC, EDQUOT, EROFS, EIO, EREMOTEIO, ENXIO, ENODEV, EUCLEAN, EFBIG};
  constexpr int of_networks[] = {ESTALE,    ETIMEDOUT,   ENOTCONN,     EHOSTDOWN,  EHOSTUNREACH,
                                 ENETDOWN,  ENETUNREACH, ECONNREFUSED, ECONNRESET, ECONNABORTED,
                                 ESHUTDOWN, EINTR,       EAGAIN};
  return std::ranges::find(of_disks, code) != std::end(of_disks) ||
         std::ranges::find(of_networks, code) != std::end(of_networks);
}

/// Whether it is of a limit, not of the file or of a right.
[[nodiscard]] constexpr bool is_of_limit(int code) {
  return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/// Whether it is of what this process may do, not of the file.
[[nodiscard]] constexpr bool is_of_access(int code) {
  return code == EACCES || code == EPERM || is_of_limit(code);
}

}  // namespace parallel
