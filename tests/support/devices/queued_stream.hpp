// queued: streams and events of a device other than the host: queues of work, which a few threads
// of the device run whenever an item in them can run.
//
// As on a GPU, a queue that waits (for an event, or for other ranks in an exchange) blocks only
// itself: it is set aside until the event happens, and no thread waits with it. The next queue to
// run is drawn at random, so that only events order work. The device can be paused, and then counts
// the host threads that wait for it.
#pragma once

#include <condition_variable>
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
  /// All queues must be empty.
  ~engine() {
    {
      std::scoped_lock const lock(gate_->mutex);
      closing_ = true;
    }
    gate_->changed.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Makes `target` run when a thread is free. Any thread may call it. Once `target` has run, this
  /// engine may be destroyed.
  void schedule(std::shared_ptr<queue> target) {
    auto const shared_gate = gate_;
    {
      std::scoped_lock const lock(shared_gate->mutex);
      ready_.push_back(std::move(target));
    }
    shared_gate->changed.notify_one();
  }

  /// No item begins until `resume`.
  void pause() {
    std::scoped_lock const lock(gate_->mutex);
    ++gate_->stops;
  }
  void resume() {
    {
      std::scoped_lock const lock(gate_->mutex);
      --gate_->stops;
    }
    gate_->changed.notify_all();
  }

  /// Whether the engine is paused. Events hold a reference, so that this outlives the engine.
  struct gate {
    std::mutex mutex;
    std::condition_variable changed;
    int stops = 0;               // host threads that have paused it
    int blocked_host_waits = 0;  // waits of host threads while it was paused

    /// Called before a host thread waits. A wait for a paused engine is counted and resumes it.
    void note_host_wait() {
      {
        std::scoped_lock const lock(mutex);
        if (stops <= 0) return;
        ++blocked_host_waits;
        stops = 0;
      }
      changed.notify_all();
    }
  };
  [[nodiscard]] std::shared_ptr<gate> const& host() const { return gate_; }

 private:
  inline void run();

  std::shared_ptr<gate> const gate_ =
      std::make_shared<gate>();  // its mutex guards the members below
  std::vector<std::shared_ptr<queue>> ready_;
  std::mt19937_64 random_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/// Runs its items one after another. An item that returns false has set the queue aside until
/// `resume` is called.
class queue : public std::enable_shared_from_this<queue> {
 public:
  struct item {
    virtual ~item() = default;
    /// `failure` is that of an earlier item, after which nothing is computed.
    virtual bool run(queue& owner, parallel::host::stream& arithmetic,
                     std::exception_ptr const& failure) = 0;
  };

  explicit queue(engine& device_engine) : engine_(device_engine) {}

  /// Appends `next`; with `throws_failure`, throws the failure of an earlier item instead.
  void push(std::unique_ptr<item> next, bool throws_failure) {
    {
      std::scoped_lock const lock(mutex_);
      if (failure_ && throws_failure) std::rethrow_exception(failure_);
      items_.push_back(std::move(next));
      if (std::exchange(scheduled_, true)) return;
    }
    engine_.schedule(shared_from_this());
  }

  /// Continues, or fails, after an item has set the queue aside.
  void resume(std::exception_ptr const& failure) {
    {
      std::scoped_lock const lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      if (items_.empty()) scheduled_ = false;
      if (!scheduled_) return;
    }
    engine_.schedule(shared_from_this());
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
    bool continues = true;
    std::exception_ptr thrown;
    try {
      continues = next->run(*this, arithmetic, failure);
    } catch (...) {
      thrown = std::current_exception();
    }
    next.reset();  // releases what it owned before the next item starts
    if (continues) resume(thrown);
  }

 private:
  engine& engine_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<item>> items_;
  bool scheduled_ = false;  // ready, running or set aside
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
  explicit event(engine const& device_engine) : state_(std::make_shared<state>()) {
    state_->host = device_engine.host();
  }

  [[nodiscard]] bool ready() const {
    std::scoped_lock const lock(state_->mutex);
    return state_->is_done;
  }
  void wait() const {
    if (!ready()) state_->host->note_host_wait();
    std::unique_lock lock(state_->mutex);
    state_->reached.wait(lock, [this] { return state_->is_done; });
    if (state_->failure) std::rethrow_exception(state_->failure);
  }
  [[nodiscard]] bool wait_until(parallel::steady_time deadline) const {
    if (!ready()) state_->host->note_host_wait();
    std::unique_lock lock(state_->mutex);
    if (!state_->reached.wait_until(lock, deadline, [this] { return state_->is_done; }))
      return false;
    if (state_->failure) std::rethrow_exception(state_->failure);
    return true;
  }

  /// Calls action(failure) when the event is reached, at once if it already was.
  void on_reached(std::function<void(std::exception_ptr const&)> action) const {
    std::exception_ptr failure;
    {
      std::scoped_lock const lock(state_->mutex);
      if (!state_->is_done) {
        state_->actions.push_back(std::move(action));
        return;
      }
      failure = state_->failure;
    }
    action(failure);
  }
  void complete(std::exception_ptr const& failure) const {
    std::vector<std::function<void(std::exception_ptr const&)>> actions;
    {
      std::scoped_lock const lock(state_->mutex);
      state_->is_done = true;
      state_->failure = failure;
      actions.swap(state_->actions);
    }
    state_->reached.notify_all();
    for (auto const& action : actions) action(failure);
  }

 private:
  struct state {
    std::shared_ptr<engine::gate> host;
    std::mutex mutex;
    std::condition_variable reached;
    bool is_done = false;
    std::exception_ptr failure;
    std::vector<std::function<void(std::exception_ptr const&)>> actions;
  };
  std::shared_ptr<state> state_;
};

class stream {
 public:
  using event_type = queued::event;

  /// A stream of a new device.
  stream() : stream(std::make_shared<engine>()) {}
  explicit stream(std::shared_ptr<engine> device_engine)
      : engine_(std::move(device_engine)), queue_(std::make_shared<queue>(*engine_)) {}
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;
  ~stream() {
    try {
      synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): failures that nobody waits for are dropped
    }
  }

  /// Appends task().
  template <class Task>
  requires std::is_invocable_v < std::decay_t<Task>
  & > void enqueue(Task&& task) {
    compute([task = std::forward<Task>(task)](parallel::host::stream&) mutable { task(); });
  }

  /// Appends task(arithmetic), which may enqueue operations on `arithmetic`, a host stream of the
  /// engine's thread; so the results have the host's bits. The operations end before the next item.
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

  /// Appends begin(queue), after which the queue is set aside until its `resume` is called.
  template <class Begin>
  void put_aside(Begin begin) {
    push(
        [begin = std::move(begin)](queue& owner, parallel::host::stream&,
                                   std::exception_ptr const& failure) mutable {
          if (failure) return true;
          begin(owner.shared_from_this());
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
    put_aside([mark](std::shared_ptr<queue> queue) {
      mark.on_reached([queue = std::move(queue)](std::exception_ptr const& failure) {
        queue->resume(failure);
      });
    });
  }

  /// An event of another device: the host waits, since no queue of this device can.
  template <class Event>
  void wait(Event const& mark) {
    engine_->host()->note_host_wait();
    mark.wait();
  }

  void synchronize() { record().wait(); }

  /// Required by operations of the host.
  [[nodiscard]] int threads() const { return 1; }

 private:
  template <class Run>
  void push(Run run, bool throws_failure) {
    struct task_item final : queue::item {
      explicit task_item(Run task) : function(std::move(task)) {}
      bool run(queue& owner, parallel::host::stream& arithmetic,
               std::exception_ptr const& failure) override {
        return function(owner, arithmetic, failure);
      }
      Run function;
    };
    queue_->push(std::make_unique<task_item>(std::move(run)), throws_failure);
  }

  std::shared_ptr<engine> engine_;
  std::shared_ptr<queue> queue_;
};

}  // namespace queued
