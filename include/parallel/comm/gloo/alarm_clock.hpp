// gloo::detail::alarm_clock: waits for gloo's buffers that end at a given time.
//
// A timeout of gloo's own closes all of a process's connections, so that nobody could be told why.
// What gloo offers besides is to end the wait of another thread: this one does, when it is time.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include <parallel/core/clock.hpp>

namespace parallel::gloo::detail {

/// What is waited for of a buffer.
enum class direction { sent, received };

/// Thread-safe.
class alarm_clock {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;

  alarm_clock() : thread_([this] { run(); }) {}
  alarm_clock(alarm_clock const&) = delete;
  alarm_clock& operator=(alarm_clock const&) = delete;
  ~alarm_clock() {
    {
      std::scoped_lock const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  /// Whether the buffer's message is through before `until`; false also when all waits are ended
  /// (`ring_all`). Throws gloo's exception when its connection is closed.
  [[nodiscard]] bool wait(buffer& on, direction what, steady_time until) {
    entry const mine(*this, {&on, what, until});
    return what == direction::received ? on.waitRecv(nullptr, ever) : on.waitSend(nullptr, ever);
  }

  /// Ends all waits that are under way.
  void ring_all() {
    std::scoped_lock const lock(mutex_);
    for (alarm const& one : alarms_) ring(one);
  }

 private:
  struct alarm {
    buffer* on;
    direction what;
    steady_time at;
  };

  // An alarm that is set while this lives.
  class entry {
   public:
    entry(alarm_clock& clock, alarm what) : clock_(clock) {
      std::scoped_lock const lock(clock_.mutex_);
      place_ = clock_.alarms_.insert(clock_.alarms_.end(), what);
      if (what.at < clock_.next_) clock_.changed_.notify_one();
    }
    entry(entry const&) = delete;
    entry& operator=(entry const&) = delete;
    ~entry() {
      std::scoped_lock const lock(clock_.mutex_);
      clock_.alarms_.erase(place_);
    }

   private:
    alarm_clock& clock_;
    std::list<alarm>::iterator place_;
  };

  static constexpr std::chrono::milliseconds ever = std::chrono::hours(24 * 365 * 100);
  static constexpr std::chrono::milliseconds pause{100};

  static void ring(alarm const& one) {
    if (one.what == direction::received)
      one.on->abortWaitRecv();
    else
      one.on->abortWaitSend();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      auto const now = steady_time::clock::now();
      next_ = now + pause;
      for (alarm& one : alarms_) {
        if (one.at <= now) {
          ring(one);
          one.at = now + pause;  // again, should it have come between two waits
        }
        next_ = std::min(next_, one.at);
      }
      changed_.wait_until(lock, next_);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<alarm> alarms_;
  steady_time next_ = {};
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace parallel::gloo::detail
