// aborted: the error of a rank that was stopped because another one failed.
//
// It is a separate type so that a program can report the first cause and not its echoes.
#pragma once

#include <string>
#include <thread>

#include <parallel/core/error.hpp>

namespace parallel {

/// Waiting ranks throw it after `abort`; the message says which rank aborted and why.
class aborted : public error {
 public:
  using error::error;
};

/// The wait of a host thread for work on the stream of `worker`; it lives as long as the wait.
class host_wait {
 public:
  explicit host_wait(std::thread::id wait_worker) : worker(wait_worker) {}
  host_wait(host_wait&&) = delete;

  /// Whether the event that the thread waits for has happened; never blocks.
  [[nodiscard]] virtual bool is_over() const = 0;

  std::thread::id const worker;

 protected:
  ~host_wait() = default;
};

/// The state that a communicator's pending operations share, through which they can be stopped.
class abortable {
 public:
  virtual ~abortable() = default;

  /// Wakes every waiting thread, on every rank that can be reached, with an `aborted` error. Only
  /// the first reason counts.
  virtual void abort(std::string const& reason) = 0;

  /// An exception, whose text is not known yet, leaves `rank` while the rank has pending
  /// operations: they fail with an `aborted` error. The code that catches the exception calls
  /// `abort` with its text; the other ranks learn `reason` only if nobody does.
  virtual void give_up(int /*rank*/, std::string const& reason) { abort(reason); }

  /// Called when the host has waited for an operation: releases what was kept for operations that
  /// have run. Throws `aborted` when the operation was stopped and its event does not report that,
  /// as events of GPUs do not.
  virtual void collect_completed() {}

  /// Called at the beginning and at the end of a wait of the calling thread.
  virtual void begin_host_wait(host_wait const&) {}
  virtual void end_host_wait() {}
};

}  // namespace parallel
