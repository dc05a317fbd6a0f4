// aborted: the error of a rank that was stopped because another one failed.
//
// It is a type of its own so that a program can report the first cause and not its echoes.
#pragma once

#include <string>

#include <parallel/core/error.hpp>

namespace parallel {

/// Thrown by waiting ranks after `abort`; the message says who aborted and why.
class aborted : public error {
 public:
  using error::error;
};

namespace detail {

/// What can be made to give up waiting: the state that a communicator's pending operations share.
class abortable {
 public:
  virtual ~abortable() = default;

  /// Wakes whoever waits, on every rank that can be reached, with an `aborted` error. The first
  /// reason stays.
  virtual void abort(std::string const& reason) = 0;
};

}  // namespace detail
}  // namespace parallel
