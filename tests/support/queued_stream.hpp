// queued: streams and events of a device that is no host::stream: queues of work, which a few
// threads of the device run whenever something in them can go on.
//
// As on a GPU, a queue that waits (for an event, or for other ranks in an exchange) holds up
// nothing but itself: it is put aside until what it waits for happens, and no thread waits with it.
// Which queue goes on next is drawn by chance, so that only events order work. The device can be
// told to stand still, and then counts the threads of the host that wait for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/clock.hpp>
#include <parallel/device/host/stream.hpp>

namespace queued {

class queue;

/// The threads of a device.
class engine {
 public:
  explicit engine(int threads = 1, std::uint64_t seed = 0) : random_(seed) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  engine(engine const&) = delete;
  engine& operator=(engine const&) = delete;
  /// Its queues are empty.
  ~engine() {
    {
      std::scoped_lock const lock(gate_->mutex);
      closing_ = true;
    }
    gate_->changed.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Something in `of` can go on. Any thread: when `of` has run, this may be gone.
  void ready(std::shared_ptr<queue> of) {
    auto const kept = gate_;
    {
      std::scoped_lock const lock(kept->mutex);
      ready_.push_back(std::move(of));
    }
    kept->changed.notify_one();
  }

  /// Nothing begins until `go_on`.
  void stand_still() {
    std::scoped_lock const lock(gate_->mutex);
    ++gate_->stops;
  }
  void go_on() {
    {
      std::scoped_lock const lock(gate_->mutex);
      --gate_->stops;
    }
    gate_->changed.notify_all();
  }

  /// Whether it stands still; outlives it in events.
  struct gate {
    std::mutex mutex;
    std::condition_variable changed;
    int stops = 0;       // threads of the host that have told it to
    int impatience = 0;  // waits of the host meanwhile

    /// Told before a thread of the host waits: one that waits for what stands still is counted, and
    /// opens the gate.
    void host_waits() {
      {
        std::scoped_lock const lock(mutex);
        if (stops <= 0) return;
        ++impatience;
        stops = 0;
      }
      changed.notify_all();
    }
  };
  [[nodiscard]] std::shared_ptr<gate> const& host() const { return gate_; }

 private:
  inline void run();

  std::shared_ptr<gate> const gate_ = std::make_shared<gate>();  // its mutex guards what follows
  std::vector<std::shared_ptr<queue>> ready_;
  std::mt19937_64 random_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/// Runs its items one after another. An item that returns false has put the queue aside: somebody
/// calls `resume` when it can go on.
class queue : public std::enable_shared_from_this<queue> {
 public:
  struct item {
    virtual ~item() = default;
    /// `failure`: of what ran before; then nothing is computed.
    virtual bool run(queue& on, parallel::host::stream& arithmetic,
                     std::exception_ptr const& failure) = 0;
  };

  explicit queue(engine& by) : by_(by) {}

  /// Appends; throws an earlier item's failure when `refuses`.
  void push(std::unique_ptr<item> next, bool refuses) {
    {
      std::scoped_lock const lock(mutex_);
      if (failure_ && refuses) std::rethrow_exception(failure_);
      items_.push_back(std::move(next));
      if (std::exchange(busy_, true)) return;
    }
    by_.ready(shared_from_this());
  }

  /// Goes on, or fails, after an item has put it aside.
  void resume(std::exception_ptr const& failure) {
    {
      std::scoped_lock const lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      if (items_.empty()) busy_ = false;
      if (!busy_) return;
    }
    by_.ready(shared_from_this());
  }

  /// Runs one item. Called by a thread of the device.
  void run_one(parallel::host::stream& arithmetic) {
    std::unique_ptr<item> next;
    std::exception_ptr failure;
    {
      std::scoped_lock const lock(mutex_);
      next = std::move(items_.front());
      items_.pop_front();
      failure = failure_;
    }
    bool goes_on = true;
    std::exception_ptr thrown;
    try {
      goes_on = next->run(*this, arithmetic, failure);
    } catch (...) {
      thrown = std::current_exception();
    }
    next.reset();  // what it owned is free before the next one starts
    if (goes_on) resume(thrown);
  }

 private:
  engine& by_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<item>> items_;
  bool busy_ = false;  // it is ready, or runs, or is put aside
  std::exception_ptr failure_;
};

inline void engine::run() {
  parallel::host::stream arithmetic;
  std::unique_lock lock(gate_->mutex);
  for (;;) {
    gate_->changed.wait(lock,
                        [this] { return closing_ || (gate_->stops <= 0 && !ready_.empty()); });
    if (closing_) return;
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    auto const next = std::move(ready_.back());
    ready_.pop_back();
    lock.unlock();
    next->run_one(arithmetic);
    lock.lock();
  }
}

/// A point in the work of a stream.
class event {
 public:
  explicit event(engine const& of) : state_(std::make_shared<state>()) { state_->host = of.host(); }

  [[nodiscard]] bool ready() const {
    std::scoped_lock const lock(state_->mutex);
    return state_->done;
  }
  void wait() const {
    if (!ready()) state_->host->host_waits();
    std::unique_lock lock(state_->mutex);
    state_->reached.wait(lock, [this] { return state_->done; });
    if (state_->failure) std::rethrow_exception(state_->failure);
  }
  [[nodiscard]] bool wait_until(parallel::steady_time deadline) const {
    if (!ready()) state_->host->host_waits();
    std::unique_lock lock(state_->mutex);
    if (!state_->reached.wait_until(lock, deadline, [this] { return state_->done; })) return false;
    if (state_->failure) std::rethrow_exception(state_->failure);
    return true;
  }

  /// Calls what(failure) when it is reached, at once when it was.
  void then(std::function<void(std::exception_ptr const&)> what) const {
    std::exception_ptr failure;
    {
      std::scoped_lock const lock(state_->mutex);
      if (!state_->done) {
        state_->then.push_back(std::move(what));
        return;
      }
      failure = state_->failure;
    }
    what(failure);
  }
  void complete(std::exception_ptr const& failure) const {
    std::vector<std::function<void(std::exception_ptr const&)>> then;
    {
      std::scoped_lock const lock(state_->mutex);
      state_->done = true;
      state_->failure = failure;
      then.swap(state_->then);
    }
    state_->reached.notify_all();
    for (auto const& what : then) what(failure);
  }

 private:
  struct state {
    std::shared_ptr<engine::gate> host;
    std::mutex mutex;
    std::condition_variable reached;
    bool done = false;
    std::exception_ptr failure;
    std::vector<std::function<void(std::exception_ptr const&)>> then;
  };
  std::shared_ptr<state> state_;
};

class stream {
 public:
  using event_type = queued::event;

  /// Of a device of its own.
  stream() : stream(std::make_shared<engine>()) {}
  explicit stream(std::shared_ptr<engine> of)
      : engine_(std::move(of)), queue_(std::make_shared<queue>(*engine_)) {}
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;
  ~stream() {
    try {
      synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): failures not asked for are dropped
    }
  }

  /// Appends task().
  template <class Task>
  requires std::is_invocable_v < std::decay_t<Task>
  & > void enqueue(Task&& task) {
    compute([task = std::forward<Task>(task)](parallel::host::stream&) mutable { task(); });
  }

  /// Appends task(arithmetic), which may enqueue operations there: a host stream that belongs to
  /// the thread, and whose bits are the host's. They are done before the next item.
  template <class Task>
  void compute(Task task) {
    push(
        [task = std::move(task)](queue&, parallel::host::stream& arithmetic,
                                 std::exception_ptr const& failure) mutable {
          if (failure) return true;
          task(arithmetic);
          arithmetic.synchronize();
          return true;
        },
        true);
  }

  /// Appends begin(queue), after which the queue is put aside until somebody resumes it.
  template <class Begin>
  void put_aside(Begin begin) {
    push(
        [begin = std::move(begin)](queue& on, parallel::host::stream&,
                                   std::exception_ptr const& failure) mutable {
          if (failure) return true;
          begin(on.shared_from_this());
          return false;
        },
        true);
  }

  [[nodiscard]] event record() {
    event mark(*engine_);
    push(
        [mark](queue&, parallel::host::stream&, std::exception_ptr const& failure) {
          mark.complete(failure);
          return true;
        },
        false);
    return mark;
  }

  void wait(event const& mark) {
    put_aside([mark](std::shared_ptr<queue> on) {
      mark.then([on = std::move(on)](std::exception_ptr const& failure) { on->resume(failure); });
    });
  }

  /// An event of another device: nothing on this one can wait for it.
  template <class Event>
  void wait(Event const& mark) {
    engine_->host()->host_waits();
    mark.wait();
  }

  void synchronize() { record().wait(); }

  /// What operations of the host ask for.
  [[nodiscard]] int threads() const { return 1; }

 private:
  template <class Run>
  void push(Run run, bool refuses) {
    struct of final : queue::item {
      explicit of(Run f) : function(std::move(f)) {}
      bool run(queue& on, parallel::host::stream& arithmetic,
               std::exception_ptr const& failure) override {
        return function(on, arithmetic, failure);
      }
      Run function;
    };
    queue_->push(std::make_unique<of>(std::move(run)), refuses);
  }

  std::shared_ptr<engine> engine_;
  std::shared_ptr<queue> queue_;
};

}  // namespace queued
