// aborted: the error of a rank that was stopped because another one failed.
//
// It is a type of its own so that a program can report the first cause and not its echoes.
#pragma once

#include <string>
#include <thread>

#include <parallel/core/error.hpp>

namespace parallel {

/// Thrown by waiting ranks after `abort`; the message says who aborted and why.
class aborted : public error {
 public:
  using error::error;
};

namespace detail {

/// A wait of a host thread for work on the stream of `worker`; lives as long as the wait.
class host_waiting {
 public:
  explicit host_waiting(std::thread::id on) : worker(on) {}
  host_waiting(host_waiting const&) = delete;
  host_waiting& operator=(host_waiting const&) = delete;

  /// Whether there is nothing left to wait for; never blocks.
  [[nodiscard]] virtual bool over() const = 0;

  std::thread::id const worker;

 protected:
  ~host_waiting() = default;
};

/// What can be made to give up waiting: the state that a communicator's pending operations share.
class abortable {
 public:
  virtual ~abortable() = default;

  /// Wakes whoever waits, on every rank that can be reached, with an `aborted` error. The first
  /// reason stays.
  virtual void abort(std::string const& reason) = 0;

  /// An exception, whose text is not known here, leaves `rank` while operations of it are pending:
  /// those fail with an `aborted` error. Whoever catches it aborts with its text; the others are
  /// given `reason` only if nobody does.
  virtual void give_up(int /*rank*/, std::string const& reason) { abort(reason); }

  /// Told when the host has waited for an operation: lets go of what was kept for those that have
  /// run, and throws `aborted` where an event does not say that its operation was ended, as those
  /// of GPUs do not.
  virtual void completed() {}

  /// Told around a wait of the calling thread.
  virtual void host_waits(host_waiting const&) {}
  virtual void host_goes_on() {}
};

}  // namespace detail
}  // namespace parallel
