// host::stream: real in-order asynchronous execution on a CPU.
//
// One worker thread per stream runs what is enqueued, in order, and blocks (never spins) when there
// is nothing to do. So computation and communication overlap by the same code as on a GPU. When a
// task throws, the stream is failed: later tasks are skipped, and the first failure is rethrown by
// `synchronize`, by waiting for any event recorded after it, and by the next `enqueue`.
//
// Memory of tasks that have run is used for the next ones, and what an operation needs while it
// runs comes from the stream's workspace: a stream that is warm asks the system for nothing. Who
// enqueues faster than tasks run is held back, as by a GPU's queue, once thousands lie there: a
// longer step takes no more memory for its queue.
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
  /// Threads that one operation may use, the worker included.
  int threads = 1;
  /// Cores for the worker and the helpers it starts: one each where there are enough for several
  /// threads, so that two that wait for each other never share one; else any of them. Empty:
  /// wherever the system likes.
  std::vector<int> cores = {};
  /// Matrix products; null: plain loops. Must outlive the stream.
  matmul_engine const* engine = nullptr;
  /// Notes what is run; null: nothing does. Must outlive the stream.
  trace* record = nullptr;
  /// Reaches the memory of exchanges that run here; null: the CPU does. Must outlive the stream.
  data_mover* mover = nullptr;
  /// With so many that have not run, `enqueue` and `wait` block until half of them have, for a
  /// second at most: then there is room for twice as many. At least 1.
  std::size_t most_waiting = 4096;
};

class stream {
 public:
  using event_type = event;
  /// A task of the worker does.
  static constexpr bool waits_for_any_event = true;

  explicit stream(stream_options options = {})
      : options_(std::move(options)), worker_([this] { run(); }) {}

  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;

  /// Finishes what was enqueued, then joins the worker. Failures not asked for are dropped.
  ~stream() {
    {
      std::scoped_lock const lock(mutex_);
      closing_ = true;
    }
    work_.notify_one();
    worker_.join();
  }

  /// Appends a task `void()`; it may own move-only state. May be held back, see
  /// stream_options::most_waiting. Rethrows an earlier task's failure.
  template <class Task>
  void enqueue(Task&& work, task_label label = task_label::here()) {
    append<task_of<std::decay_t<Task>>>(label, std::forward<Task>(work));
  }
  /// Appends a task with a label that is not the caller's name.
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

  /// Blocks until nothing that was enqueued runs any more, and no other stream's work that this one
  /// was told to wait for: on a failed stream, where `synchronize` returns while that goes on, too.
  /// For memory that goes when an exception leaves; drops all failures.
  void drain() noexcept {
    auto const over = [](auto const& wait) {
      try {
        wait();
      } catch (...) {  // NOLINT(bugprone-empty-catch): the one that leaves says why
      }
    };
    over([this] { synchronize(); });
    std::vector<std::function<void()>> rest;
    {
      std::scoped_lock const lock(mutex_);
      rest.swap(skipped_waits_);
    }
    for (auto const& wait : rest) over(wait);
  }

  /// The thread that runs the tasks.
  [[nodiscard]] std::thread::id worker() const { return worker_.get_id(); }

  [[nodiscard]] int threads() const { return options_.threads; }
  [[nodiscard]] matmul_engine const* engine() const { return options_.engine; }
  [[nodiscard]] data_mover* mover() const { return options_.mover; }
  /// For the task that runs, and only for it.
  [[nodiscard]] workspace& memory() { return workspace_; }

 private:
  struct task {
    virtual ~task() = default;
    /// Runs unless the stream failed before; a mark always runs and passes the failure on.
    virtual void run(std::exception_ptr const& failure) = 0;
    task_label label;  // "" of a mark
    std::size_t bytes = 0;
    bool is_mark = false;
  };

  /// The memory goes back to the pool separately.
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

  /// Of a failed stream it is left to `drain`: others may wait for what this stream leaves out.
  template <class Event>
  struct wait_task final : task {
    explicit wait_task(std::pair<stream*, Event> of) : own(of.first), mark(std::move(of.second)) {}
    void run(std::exception_ptr const& failure) override {
      if (!failure) return mark.wait();
      std::scoped_lock const lock(own->mutex_);
      own->skipped_waits_.emplace_back([mark = mark] { mark.wait(); });
    }
    stream* own;
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

  /// Half of the room at once: a thread is not woken for every task. What runs may wait for what is
  /// still to be appended, as a message for another rank's: without any room for a second, there
  /// will be twice as much.
  void wait_for_room(std::unique_lock<std::mutex>& lock) {
    if (waiting_ < options_.most_waiting || std::this_thread::get_id() == worker_.get_id()) return;
    ++blocked_;
    auto const goes_on = [this] { return has_room() || failure_; };
    if (!room_.wait_for(lock, std::chrono::seconds(1), goes_on)) options_.most_waiting *= 2;
    --blocked_;
  }
  [[nodiscard]] bool has_room() const { return waiting_ <= options_.most_waiting / 2; }

  /// Appends a task; the lock is held.
  template <class Kind, class Argument>
  void push(task_label label, Argument&& argument) {
    static_assert(alignof(Kind) <= alignof(std::max_align_t));
    void* const place = task_memory_.allocate(sizeof(Kind));  // kept if the next line throws
    std::unique_ptr<task, destroy> next(new (place) Kind(std::forward<Argument>(argument)));
    next->label = label;
    next->bytes = sizeof(Kind);
    next->is_mark = std::is_same_v<Kind, mark_task>;
    tasks_.push_back(std::move(next));
    if (!tasks_.back()->is_mark) ++waiting_;
  }

  /// Restricts the calling thread; advice: failing changes no result.
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
    bool const one_each = std::ssize(cores) >= threads;
    auto const worker = std::this_thread::get_id();
    detail::parallel_static(options_.threads, threads, [&](index thread) {
      bool const is_helper = std::this_thread::get_id() != worker;  // none without OpenMP
      if (one_each && (thread == 0 || is_helper))
        bind(cores.subspan(static_cast<std::size_t>(thread), 1));
      else if (is_helper)  // LLVM's OpenMP lends it bound as a stream that has ended left it
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
      if (!next->is_mark) --waiting_;
      if (blocked_ > 0 && has_room()) room_.notify_all();
      auto const failure = failure_;
      lock.unlock();
      bool const timed =
          options_.record != nullptr && !next->label.name.empty() && options_.record->recording();
      auto const begin = timed ? steady_time::clock::now() : steady_time{};
      std::exception_ptr thrown;
      try {
        next->run(failure);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (timed) options_.record->add({next->label, begin, steady_time::clock::now()});
      std::size_t const bytes = next->bytes;
      void* const place = next.get();
      next.reset();  // frees what the task owned before the next one starts
      lock.lock();
      task_memory_.deallocate(place, bytes);
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
  std::size_t waiting_ = 0;                             // tasks in the queue, marks not counted
  std::size_t blocked_ = 0;                             // threads that want to append
  std::pmr::unsynchronized_pool_resource task_memory_;  // of the queue, too; under the mutex
  std::pmr::deque<std::unique_ptr<task, destroy>> tasks_{&task_memory_};
  std::exception_ptr failure_;
  std::vector<std::function<void()>> skipped_waits_;
  bool closing_ = false;
  workspace workspace_;  // the worker's
  std::thread worker_;   // last: starts when everything else is ready
};

}  // namespace parallel::host
