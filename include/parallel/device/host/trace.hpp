// host::trace: the tasks that a stream ran, and their times, for profiles and for tests of overlap.
//
// A stream with a trace records the label and times of every task while recording is on; while it
// is off, the stream only reads one flag. A task that runs an operation is labelled with the
// operation's name, any other task with the name of the function that enqueued it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/clock.hpp>

namespace parallel::host {

/// The name of a task, in memory that is never freed, and the bytes that the task moves (0: not
/// stated).
struct task_label {
  std::string_view name;
  std::uint64_t bytes = 0;

  /// As a default argument it names the function that contains the call.
  [[nodiscard]] static constexpr task_label current(char const* function = __builtin_FUNCTION()) {
    return {function, 0};
  }
};

/// A task that ran, and when it ran.
struct timed_task {
  task_label label;
  steady_time begin;
  steady_time end;
};

/// The tasks that one stream recorded; any thread may read them. A trace must outlive its stream.
class trace {
 public:
  void start() { recording_.store(true, std::memory_order_relaxed); }
  void stop() { recording_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool is_recording() const { return recording_.load(std::memory_order_relaxed); }

  void add(timed_task const& task) {
    std::scoped_lock const lock(mutex_);
    tasks_.push_back(task);
  }

  /// The tasks recorded since the last call of take, in order.
  [[nodiscard]] std::vector<timed_task> take() {
    std::scoped_lock const lock(mutex_);
    return std::exchange(tasks_, {});
  }

 private:
  std::atomic<bool> recording_ = false;
  std::mutex mutex_;
  std::vector<timed_task> tasks_;
};

}  // namespace parallel::host
