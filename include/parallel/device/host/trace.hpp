// host::trace: what a stream ran, and when: for profiles, and for proofs that work overlaps.
//
// A stream that is given one notes every task's label and times while recording is on; else it
// looks at one flag. An operation's label is its name, else that of the function that enqueued.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/clock.hpp>

namespace parallel::host {

/// What a task is called, in memory that lives forever, and how many bytes it moves if it says so.
struct task_label {
  std::string_view name;
  std::uint64_t bytes = 0;

  /// As a default argument, the function in which it stands for the caller.
  [[nodiscard]] static constexpr task_label here(char const* function = __builtin_FUNCTION()) {
    return {function, 0};
  }
};

struct timed_task {
  task_label label;
  steady_time begin;
  steady_time end;
};

/// Written by one stream, read by anyone. Must outlive the stream.
class trace {
 public:
  void start() { recording_.store(true, std::memory_order_relaxed); }
  void stop() { recording_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool recording() const { return recording_.load(std::memory_order_relaxed); }

  void add(timed_task const& task) {
    std::scoped_lock const lock(mutex_);
    tasks_.push_back(task);
  }

  /// What was recorded since the last time, in order.
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
