// host::event: a point in the work of a host stream, for which streams and threads can wait.
//
// Waiting blocks on a condition variable and does not spin. An event whose stream failed holds the
// failure, and waiting for it rethrows the failure: so an error reaches every dependent stream.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <parallel/core/clock.hpp>

namespace parallel::host {

class event {
 public:
  event() : state_(std::make_shared<state>()) {}

  /// Marks the event as reached, or as failed if `failure` is set. Called once, by the stream.
  void complete(std::exception_ptr failure = nullptr) const {
    {
      std::scoped_lock const lock(state_->mutex);
      state_->is_complete = true;
      state_->failure = std::move(failure);
    }
    state_->reached.notify_all();
  }

  /// Whether the event is reached or failed. Never blocks.
  [[nodiscard]] bool ready() const {
    std::scoped_lock const lock(state_->mutex);
    return state_->is_complete;
  }

  /// Blocks the calling thread until the event is reached; rethrows the failure of its stream.
  void wait() const {
    std::unique_lock lock(state_->mutex);
    state_->reached.wait(lock, [this] { return state_->is_complete; });
    if (state_->failure) std::rethrow_exception(state_->failure);
  }

  /// Like `wait`, but until `deadline` at most; false if the deadline passes first.
  [[nodiscard]] bool wait_until(steady_time deadline) const {
    std::unique_lock lock(state_->mutex);
    if (!state_->reached.wait_until(lock, deadline, [this] { return state_->is_complete; }))
      return false;
    if (state_->failure) std::rethrow_exception(state_->failure);
    return true;
  }

 private:
  struct state {
    std::mutex mutex;
    std::condition_variable reached;
    bool is_complete = false;
    std::exception_ptr failure;
  };
  std::shared_ptr<state> state_;
};

}  // namespace parallel::host
