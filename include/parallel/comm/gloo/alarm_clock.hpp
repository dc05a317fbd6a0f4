// gloo::detail::alarm_clock: waits for messages in gloo's buffers, at most until a deadline.
//
// A timeout of gloo's own closes all connections of a process, so that no rank could be told the
// reason. But gloo lets another thread end a wait: the thread of this class does so when the time
// has come.
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

/// The side of a message that is waited for.
enum class direction { sent, received };

/// Thread-safe.
class alarm_clock {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;

  alarm_clock() : thread_([this] { run(); }) {}
  alarm_clock(alarm_clock&&) = delete;
  ~alarm_clock() {
    {
      std::scoped_lock const lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  /// Waits until the buffer's message is complete; returns false if `deadline` passes or `ring_all`
  /// ends all waits before. Throws gloo's exception when its connection is closed.
  [[nodiscard]] bool wait(buffer& waited, direction side, steady_time deadline) {
    entry const alarm_entry(*this, {&waited, side, deadline});
    return side == direction::received ? waited.waitRecv(nullptr, no_timeout)
                                       : waited.waitSend(nullptr, no_timeout);
  }

  /// Ends all current waits.
  void ring_all() {
    std::scoped_lock const lock(mutex_);
    for (alarm const& set_alarm : alarms_) ring(set_alarm);
  }

 private:
  struct alarm {
    buffer* waited;
    direction side;
    steady_time time;
  };

  // Sets an alarm while it lives.
  class entry {
   public:
    entry(alarm_clock& clock, alarm new_alarm) : clock_(clock) {
      std::scoped_lock const lock(clock_.mutex_);
      position_ = clock_.alarms_.insert(clock_.alarms_.end(), new_alarm);
      if (new_alarm.time < clock_.next_) clock_.changed_.notify_one();
    }
    entry(entry&&) = delete;
    ~entry() {
      std::scoped_lock const lock(clock_.mutex_);
      clock_.alarms_.erase(position_);
    }

   private:
    alarm_clock& clock_;
    std::list<alarm>::iterator position_;
  };

  static constexpr std::chrono::milliseconds no_timeout = std::chrono::hours(24 * 365 * 100);
  static constexpr std::chrono::milliseconds ring_interval{100};

  static void ring(alarm const& expired) {
    if (expired.side == direction::received)
      expired.waited->abortWaitRecv();
    else
      expired.waited->abortWaitSend();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
      auto const current_time = steady_time::clock::now();
      next_ = current_time + ring_interval;
      for (alarm& pending_alarm : alarms_) {
        if (pending_alarm.time <= current_time) {
          ring(pending_alarm);
          // Rings again after this time: a ring before the thread has begun to wait may be lost.
          pending_alarm.time = current_time + ring_interval;
        }
        next_ = std::min(next_, pending_alarm.time);
      }
      changed_.wait_until(lock, next_);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<alarm> alarms_;
  steady_time next_ = {};
  bool is_stopping_ = false;
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace parallel::gloo::detail
