// Worker threads whose results are returned in the order of the tasks.
//
// One thread pushes tasks and pops results, so its output does not depend on the number or the
// speed of the workers. An exception in a worker is rethrown by the `pop` of its task. The caller
// bounds memory by the number of tasks that it keeps pending.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace mpt::data {

template <class Task, class Result>
class ordered_workers {
 public:
  using function = std::function<Result(Task&)>;

  /// Starts `count` >= 1 threads; each gets its own function from `make`, called in this thread.
  ordered_workers(std::size_t count, std::function<function()> const& make) {
    for (std::size_t i = 0; i < count; ++i)
      threads_.emplace_back([this, work = make()](std::stop_token stop) { run(stop, work); });
  }

  ordered_workers(ordered_workers&&) = delete;

  /// Drops the tasks that have not begun, and waits for those that have.
  ~ordered_workers() {
    for (auto& thread : threads_) thread.request_stop();
  }

  void push(Task task) {
    std::promise<Result> promise;
    results_.push_back(promise.get_future());
    {
      std::scoped_lock const lock(mutex_);
      jobs_.emplace_back(std::move(task), std::move(promise));
    }
    ready_.notify_one();
  }

  /// The number of tasks that were pushed and not popped.
  [[nodiscard]] std::size_t pending() const { return results_.size(); }

  /// Waits for the oldest pending task; there must be one.
  [[nodiscard]] Result pop() {
    auto result = std::move(results_.front());
    results_.pop_front();
    return result.get();
  }

 private:
  void run(std::stop_token const& stop, function const& work) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!ready_.wait(lock, stop, [&] { return !jobs_.empty(); }) || stop.stop_requested()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      try {
        job.second.set_value(work(job.first));
      } catch (...) {
        job.second.set_exception(std::current_exception());
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::pair<Task, std::promise<Result>>> jobs_;
  std::deque<std::future<Result>> results_;
  std::vector<std::jthread>
      threads_;  // last member: they stop before the members that they use are destroyed
};

}  // namespace mpt::data
