// failures: errors whose cause matters to whoever started the program, who reads its exit status.
//
// Everything else that goes wrong is a plain `error`; a rank that was stopped because another one
// failed throws `aborted` (comm/aborted.hpp).
#pragma once

#include <cerrno>

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

/// A disk is full, read-only or failing: trying again later, or elsewhere, may help.
class storage_error : public error {
 public:
  using error::error;
};

/// The system does not let this process have a file: a right is missing, or too many are open.
class access_error : public error {
 public:
  using error::error;
};

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

/// Whether the system's error `code` is of the storage, not of a name or a right.
[[nodiscard]] constexpr bool is_of_storage(int code) {
  return code == ENOSPC || code == EDQUOT || code == EROFS || code == EIO || code == ESTALE;
}

/// Whether it is of what this process may do, not of the file.
[[nodiscard]] constexpr bool is_of_access(int code) {
  return code == EACCES || code == EPERM || code == EMFILE || code == ENFILE || code == ENOMEM;
}

}  // namespace parallel
