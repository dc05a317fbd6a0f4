// host::stream: asynchronous in-order execution on a CPU.
//
// Each stream has one worker thread, which runs the enqueued tasks in order and blocks without
// spinning while the queue is empty. So the same code overlaps computation and communication as on
// a GPU. If a task throws, the stream is failed: later tasks are skipped, and the first failure is
// rethrown by `synchronize`, by waiting for any event recorded after it, and by the next `enqueue`.
//
// The memory of finished tasks is reused for later ones, and operations take temporary memory from
// the stream's workspace: after its first tasks a stream allocates nothing from the system. A
// thread that enqueues faster than the tasks run is blocked when thousands of tasks are queued, as
// with a GPU's queue: the memory of the queue is bounded for steps of any length.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/device/data_mover.hpp>
#include <parallel/device/host/event.hpp>
#include <parallel/device/host/matmul_engine.hpp>
#include <parallel/device/host/openmp.hpp>
#include <parallel/device/host/trace.hpp>
#include <parallel/device/host/workspace.hpp>

namespace parallel::host {

struct stream_options {
  /// The number of threads that one operation may use, including the worker.
  int threads = 1;
  /// The cores of the worker and its helper threads. If there are as many cores as threads, each
  /// thread is bound to its own, so that two threads that wait for each other never share a core;
  /// otherwise each thread may use any of them. Empty: the system chooses.
  std::vector<int> cores = {};
  /// Computes matrix products; null: plain loops do. Must outlive the stream.
  matmul_engine const* engine = nullptr;
  /// Records the tasks and their times; null: nothing is recorded. Must outlive the stream.
  trace* record = nullptr;
  /// Accesses the memory of the exchanges on this stream; null: the CPU does. Must outlive the
  /// stream.
  data_mover* mover = nullptr;
  /// While this many tasks are queued, `enqueue` and `wait` block until half of them have run.
  /// After one second of blocking the limit is doubled instead. At least 1.
  std::size_t max_queued_tasks = 4096;
};

class stream {
 public:
  using event_type = event;
  /// The worker waits in a separate task.
  static constexpr bool waits_for_any_event = true;

  explicit stream(stream_options options = {})
      : options_(std::move(options)), worker_([this] { run(); }) {}

  stream(stream&&) = delete;

  /// Finishes the enqueued work, then joins the worker. Failures that nobody has asked for are
  /// lost.
  ~stream() {
    {
      std::scoped_lock const lock(mutex_);
      closing_ = true;
    }
    work_.notify_one();
    worker_.join();
  }

  /// Appends a task `void()`, which may own move-only state. May block, see
  /// stream_options::max_queued_tasks. Rethrows the failure of an earlier task.
  template <class Task>
  void enqueue(Task&& work, task_label label = task_label::current()) {
    append<task_of<std::decay_t<Task>>>(label, std::forward<Task>(work));
  }
  /// Appends a task with an explicit label instead of the caller's name.
  template <class Task>
  void enqueue(task_label label, Task&& work) {
    append<task_of<std::decay_t<Task>>>(label, std::forward<Task>(work));
  }

  /// An event that is reached when everything enqueued so far has run.
  [[nodiscard]] event record() {
    event mark;
    {
      std::scoped_lock const lock(mutex_);
      push<mark_task>({"", 0}, mark);
    }
    work_.notify_one();
    return mark;
  }

  /// Later tasks of this stream run only after `mark`, an event of any device, is reached; its
  /// failure fails this stream.
  template <class Event>
  void wait(Event mark) {
    append<wait_task<Event>>({"wait"}, std::pair(this, std::move(mark)));
  }

  /// Blocks the caller until all enqueued work has run; rethrows the first failure.
  void synchronize() { record().wait(); }

  /// Blocks until all enqueued work has ended, and all work of other streams for which this stream
  /// was to wait. On a failed stream `synchronize` returns while such other work still runs;
  /// `drain` does not. It is called before memory is freed because of an exception. Ignores all
  /// failures.
  void drain() noexcept {
    auto const ignore_failures = [](auto const& wait) {
      try {
        wait();
      } catch (...) {  // NOLINT(bugprone-empty-catch): the caller already handles an exception
      }
    };
    ignore_failures([this] { synchronize(); });
    std::vector<std::function<void()>> skipped;
    {
      std::scoped_lock const lock(mutex_);
      skipped.swap(skipped_waits_);
    }
    for (auto const& wait : skipped) ignore_failures(wait);
  }

  /// The thread that runs the tasks.
  [[nodiscard]] std::thread::id worker() const { return worker_.get_id(); }

  [[nodiscard]] int threads() const { return options_.threads; }
  [[nodiscard]] matmul_engine const* engine() const { return options_.engine; }
  [[nodiscard]] data_mover* mover() const { return options_.mover; }
  /// Temporary memory for the running task, and for each of its threads that multiplies by itself.
  [[nodiscard]] workspace& memory(std::size_t thread = 0) { return workspaces_[thread]; }

 private:
  struct task {
    virtual ~task() = default;
    /// `failure` is set if the stream has failed. Then only marks act: they pass the failure on.
    virtual void run(std::exception_ptr const& failure) = 0;
    task_label label;  // "" of a mark
    std::size_t bytes = 0;
    bool is_mark = false;
  };

  /// Destroys a task; its memory is returned to the pool separately.
  struct destroy {
    void operator()(task* t) const { std::destroy_at(t); }
  };

  template <class F>
  struct task_of final : task {
    explicit task_of(F f) : function(std::move(f)) {}
    void run(std::exception_ptr const& failure) override {
      if (!failure) function();
    }
    F function;
  };

  /// Waits for an event. On a failed stream the wait is skipped and stored for `drain`: to wait
  /// immediately could deadlock, since the event may depend on work that this stream skips.
  template <class Event>
  struct wait_task final : task {
    explicit wait_task(std::pair<stream*, Event> arguments)
        : waiting_stream(arguments.first), mark(std::move(arguments.second)) {}
    void run(std::exception_ptr const& failure) override {
      if (!failure) return mark.wait();
      std::scoped_lock const lock(waiting_stream->mutex_);
      waiting_stream->skipped_waits_.emplace_back([mark = mark] { mark.wait(); });
    }
    stream* waiting_stream;
    Event mark;
  };

  struct mark_task final : task {
    explicit mark_task(event e) : mark(std::move(e)) {}
    void run(std::exception_ptr const& failure) override { mark.complete(failure); }
    event mark;
  };

  template <class Kind, class Argument>
  void append(task_label label, Argument&& argument) {
    {
      std::unique_lock lock(mutex_);
      wait_for_room(lock);
      if (failure_) std::rethrow_exception(failure_);
      push<Kind>(label, std::forward<Argument>(argument));
    }
    work_.notify_one();
  }

  /// Blocks while the queue is full, until it is half empty, so that the thread is not woken for
  /// every task. A running task may depend on a task that is still to be appended, as a receive on
  /// another rank's send: if the queue stays full for a second, its limit is doubled.
  void wait_for_room(std::unique_lock<std::mutex>& lock) {
    if (queued_ < options_.max_queued_tasks || std::this_thread::get_id() == worker_.get_id())
      return;
    ++blocked_threads_;
    auto const may_continue = [this] { return has_room() || failure_; };
    if (!room_.wait_for(lock, std::chrono::seconds(1), may_continue))
      options_.max_queued_tasks *= 2;
    --blocked_threads_;
  }
  [[nodiscard]] bool has_room() const { return queued_ <= options_.max_queued_tasks / 2; }

  /// Appends a task; the lock is held.
  template <class Kind, class Argument>
  void push(task_label label, Argument&& argument) {
    static_assert(alignof(Kind) <= alignof(std::max_align_t));
    void* const memory =
        task_memory_.allocate(sizeof(Kind));  // stays unused if the next line throws
    std::unique_ptr<task, destroy> next(new (memory) Kind(std::forward<Argument>(argument)));
    next->label = label;
    next->bytes = sizeof(Kind);
    next->is_mark = std::is_same_v<Kind, mark_task>;
    tasks_.push_back(std::move(next));
    if (!tasks_.back()->is_mark) ++queued_;
  }

  /// Binds the calling thread to cores. A failure is ignored: it changes no result.
  static void bind(std::span<int const> cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int const core : cores) CPU_SET(static_cast<unsigned>(core), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }

  void bind_to_cores() const {
    std::span<int const> const cores = options_.cores;
    if (cores.empty()) return;
    bind(cores);
    auto const threads = static_cast<index>(options_.threads);
    if (threads <= 1) return;
    bool const has_core_for_each = std::ssize(cores) >= threads;
    auto const worker = std::this_thread::get_id();
    detail::parallel_static(options_.threads, threads, [&](index thread) {
      bool const is_helper = std::this_thread::get_id() != worker;  // always false without OpenMP
      if (has_core_for_each && (thread == 0 || is_helper))
        bind(cores.subspan(static_cast<std::size_t>(thread), 1));
      else if (is_helper)  // with LLVM's OpenMP it may still be bound for a stream that has ended
        bind(cores);
    });
  }

  void run() {
    bind_to_cores();
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto next = std::move(tasks_.front());
      tasks_.pop_front();
      if (!next->is_mark) --queued_;
      if (blocked_threads_ > 0 && has_room()) room_.notify_all();
      auto const failure = failure_;
      lock.unlock();
      bool const is_timed = options_.record != nullptr && !next->label.name.empty() &&
                            options_.record->is_recording();
      auto const begin = is_timed ? steady_time::clock::now() : steady_time{};
      std::exception_ptr thrown;
      try {
        next->run(failure);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (is_timed) options_.record->add({next->label, begin, steady_time::clock::now()});
      std::size_t const bytes = next->bytes;
      void* const memory = next.get();
      next.reset();  // frees what the task owned before the next one starts
      lock.lock();
      task_memory_.deallocate(memory, bytes);
      if (thrown && !failure_) {
        failure_ = thrown;
        room_.notify_all();
      }
    }
  }

  stream_options options_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable room_;
  std::size_t queued_ = 0;                              // tasks in the queue, marks not counted
  std::size_t blocked_threads_ = 0;                     // threads that want to append
  std::pmr::unsynchronized_pool_resource task_memory_;  // for tasks and queue; under the mutex
  std::pmr::deque<std::unique_ptr<task, destroy>> tasks_{&task_memory_};
  std::exception_ptr failure_;
  std::vector<std::function<void()>> skipped_waits_;
  bool closing_ = false;
  std::unique_ptr<workspace[]> workspaces_ =
      std::make_unique<workspace[]>(static_cast<std::size_t>(std::max(1, options_.threads)));
  std::thread worker_;  // last member: starts when all others are constructed
};

}  // namespace parallel::host
