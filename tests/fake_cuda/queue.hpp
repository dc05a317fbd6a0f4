// A queue of work with a thread that runs it, in order: a stream of the fake machine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace fake_cuda {

/// When a stream runs its tasks.
enum class pace {
  eager,   // at once
  late,    // when a thread waits for the task or queries it, else after some milliseconds
  uneven,  // at random up to half a millisecond later, even while a thread waits
  lazy,    // when a thread waits for the task, else never
};

/// A queue of tasks, numbered from 1 on, which must not throw. Thread-safe. The queue's thread owns
/// the queue until it is closed and all tasks have run, so that nobody has to wait for the end.
class queue {
 public:
  using task = std::function<void()>;

  [[nodiscard]] static std::shared_ptr<queue> make(pace speed, std::uint64_t seed) {
    auto new_queue = std::make_shared<queue>(speed, seed);
    std::thread([new_queue] { new_queue->run(); }).detach();
    return new_queue;
  }

  /// Makes a queue without a thread; `make` starts one.
  queue(fake_cuda::pace queue_pace, std::uint64_t seed)
      : pace_(queue_pace), random_(seed * 2 + 1) {}

  queue(queue const&) = delete;
  queue& operator=(queue const&) = delete;

  /// No task is pushed after this call.
  void close() {
    std::scoped_lock const lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }

  std::uint64_t push(task work) {
    std::scoped_lock const lock(mutex_);
    return push_locked(std::move(work));
  }

  /// Pushes the task, unless the queue was closed: its thread may have ended.
  bool push_if_open(task const& work) {
    std::scoped_lock const lock(mutex_);
    if (!closing_) push_locked(work);
    return !closing_;
  }

  /// The number of the task that was pushed last.
  [[nodiscard]] std::uint64_t last_number() {
    std::scoped_lock const lock(mutex_);
    return pushed_;
  }

  /// Whether the first `number` tasks have run.
  [[nodiscard]] bool has_completed(std::uint64_t number) {
    std::scoped_lock const lock(mutex_);
    if (pace_ != pace::lazy) demand(number);
    return done_ >= number;
  }

  void wait(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    demand(number);
    changed_.wait(lock, [&] { return done_ >= number; });
  }

 private:
  static constexpr auto late_limit = std::chrono::milliseconds(5);

  std::uint64_t push_locked(task work) {
    tasks_.push_back(std::move(work));
    changed_.notify_all();
    return ++pushed_;
  }

  void demand(std::uint64_t number) {
    if (number <= demanded_) return;
    demanded_ = number;
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto const demanded = [this] { return closing_ || demanded_ > done_; };
      if (pace_ == pace::late) changed_.wait_for(lock, late_limit, demanded);
      if (pace_ == pace::lazy) changed_.wait(lock, demanded);
      auto work = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (pace_ == pace::uneven) delay_now_and_then();
      work();
      work = nullptr;  // destroys what the task owns before the task counts as done
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  void delay_now_and_then() {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    auto const drawn = random_ >> 33;
    if (drawn % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 16 % 500));
  }

  fake_cuda::pace pace_;
  std::uint64_t random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  std::uint64_t pushed_ = 0, done_ = 0, demanded_ = 0;
  bool closing_ = false;
};

}  // namespace fake_cuda
