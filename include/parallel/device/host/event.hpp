// host::event: a point in the work of a host stream that others can wait for.
//
// Waiting blocks on a condition variable and never spins. An event whose stream failed carries the
// failure: whoever waits for it rethrows it, so an error reaches every stream that depends on it.
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

  /// Marks the event as reached, or as failed when `failure` is set. Called once, by the stream.
  void complete(std::exception_ptr failure = nullptr) const {
    {
      std::scoped_lock const lock(state_->mutex);
      state_->done = true;
      state_->failure = std::move(failure);
    }
    state_->reached.notify_all();
  }

  /// True when reached or failed; never blocks.
  [[nodiscard]] bool ready() const {
    std::scoped_lock const lock(state_->mutex);
    return state_->done;
  }

  /// Blocks the calling thread until the event is reached; rethrows the failure of its stream.
  void wait() const {
    std::unique_lock lock(state_->mutex);
    state_->reached.wait(lock, [this] { return state_->done; });
    if (state_->failure) std::rethrow_exception(state_->failure);
  }

  /// Like `wait`, until `deadline` at most; false when the deadline passed first.
  [[nodiscard]] bool wait_until(steady_time deadline) const {
    std::unique_lock lock(state_->mutex);
    if (!state_->reached.wait_until(lock, deadline, [this] { return state_->done; })) return false;
    if (state_->failure) std::rethrow_exception(state_->failure);
    return true;
  }

 private:
  struct state {
    std::mutex mutex;
    std::condition_variable reached;
    bool done = false;
    std::exception_ptr failure;
  };
  std::shared_ptr<state> state_;
};

}  // namespace parallel::host
