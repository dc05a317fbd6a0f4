// reference::stream: runs each task when it is enqueued, on the calling thread.
//
// This is the simplest model of the stream concept. Operations on it are the loops of their
// arguments (`compute`), which follow the equations; every other device is tested against them.
#pragma once

#include <tuple>
#include <utility>

#include <parallel/device/concepts.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::reference {

class stream {
 public:
  using event_type = reached_event;
  /// Waiting happens on the calling thread, as do all tasks.
  static constexpr bool waits_for_any_event = true;

  /// Runs `task()` now; its exceptions reach the caller.
  template <class Task>
  void enqueue(Task&& task) {
    std::forward<Task>(task)();
  }

  [[nodiscard]] reached_event record() { return {}; }

  /// Waits on the host for an event of any device (one with a member `wait`).
  template <class Event>
  void wait(Event const& mark) {
    mark.wait();
  }

  void synchronize() {}
};

/// Throws `error` where an operand has elements and is bound to no memory.
template <ops::operation_arguments Arguments>
void require_bound_operands(Arguments const& a) {
  if constexpr (requires { a.operands(); })
    std::apply([](auto const&... operands) { meta::require_bound(operands...); }, a.operands());
}

/// Any operation.
template <ops::operation_arguments Arguments>
void run_operation(stream&, Arguments const& a) {
  require_bound_operands(a);
  ops::compute(a);
}

}  // namespace parallel::reference
