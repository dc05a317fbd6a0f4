// reference::deferred_stream: a reference stream whose tasks can wait until they are asked for.
//
// A stream of a GPU, or one with a thread, runs a task long after the function that enqueued it has
// returned. This stream shows on the host the errors that a delayed task causes, such as an
// operand that has gone out of scope; check_layer uses it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <parallel/ops/reference.hpp>

namespace parallel::reference {

/// When the tasks of a deferred_stream start: as they are enqueued, or in run().
enum class task_start { immediate, deferred };

class deferred_stream : public stream {
 public:
  explicit deferred_stream(task_start start = task_start::deferred) : start_(start) {}

  template <class Task>
  void enqueue(Task&& task) {
    if (start_ == task_start::immediate) {
      stream::enqueue(std::forward<Task>(task));
      return;
    }
    // shared, since std::function takes only what can be copied
    append(
        [shared = std::make_shared<std::decay_t<Task>>(std::forward<Task>(task))] { (*shared)(); });
  }

  /// Runs the tasks in the order in which they were enqueued. Their exceptions reach the caller,
  /// and the tasks after the one that threw are dropped.
  void run() {
    auto const tasks = std::exchange(tasks_, {});
    for (auto const& task : tasks) task();
  }

  void synchronize() { run(); }

 private:
  // Not inlined: a compiler that saw the whole of it could leave out stores to local variables that
  // a task refers to, and hide the error that this class is there to show.
  [[gnu::noinline]] void append(std::function<void()> task) { tasks_.push_back(std::move(task)); }

  task_start start_;
  std::deque<std::function<void()>> tasks_;
};

/// Enqueues any operation; its operands are read when the task runs.
template <ops::operation_arguments Arguments>
void run_operation(deferred_stream& s, Arguments const& a) {
  require_bound_operands(a);
  s.enqueue([a] { ops::compute(a); });
}

}  // namespace parallel::reference
