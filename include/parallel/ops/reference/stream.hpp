// reference::stream: runs what is enqueued at once, on the calling thread.
//
// The plainest model of the stream concept. Operations on it are loops that follow the equations;
// every other device is tested against them.
#pragma once

#include <utility>

namespace parallel::reference {

/// Reached at once: everything enqueued before has already run.
struct event {
  void wait() const {}
  [[nodiscard]] bool ready() const { return true; }
};

class stream {
 public:
  /// Runs `task()` now; what it throws reaches the caller.
  template <class Task>
  void enqueue(Task&& task) {
    std::forward<Task>(task)();
  }

  [[nodiscard]] event record() { return {}; }

  /// Waits on the host for an event of any device (one with a member `wait`).
  template <class Event>
  void wait(Event const& mark) {
    mark.wait();
  }

  void synchronize() {}
};

}  // namespace parallel::reference
