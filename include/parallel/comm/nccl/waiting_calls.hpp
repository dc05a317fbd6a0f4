// nccl::waiting_calls: what has been enqueued on one communicator and is not known to be over.
//
// CUDA is asked, and what has run is let go, outside of the lock: a call of CUDA may wait for one
// that another thread is in, and that for a kernel which only an abort ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/cuda/event.hpp>

namespace parallel::nccl {

/// An operation that has been enqueued.
struct pending {
  cuda::event done;
  operation what;
  std::uint64_t number = 0;  // of the communicator's calls
  std::shared_ptr<parallel::detail::kept> owners;
  noted_calls notes = {};
  std::optional<cuda::event> begins = {};  // reached when the stream has come to it; until noted
  std::chrono::milliseconds deadline = {};
  std::optional<patience> limit = {};  // begins when it is the first of its communicator
};

/// Thread-safe. They run in the order in which they come.
class waiting_calls {
 public:
  void add(pending one) {
    std::scoped_lock const lock(mutex_);
    calls_.push_back(std::move(one));
  }

  /// Takes away what is over, as CUDA tells, and notes that, and what has begun, unless is_ended(),
  /// which is asked when CUDA has answered: what an abort ended seems to have run. Throws `error`
  /// when work before has failed.
  template <class IsEnded>
  void forget_completed(IsEnded const& is_ended) {
    for (;;) {
      auto const first = events_of_first();
      if (!first) return;
      bool const over = first->done.ready();
      bool const began = over || (first->begins && first->begins->ready());
      bool const notes = !is_ended();
      std::optional<pending> gone;         // let go when the lock is
      std::optional<cuda::event> reached;  // too
      std::scoped_lock const lock(mutex_);
      if (calls_.empty() || calls_.front().done.get() != first->done.get()) continue;
      auto& front = calls_.front();
      if (over) {
        if (notes) front.notes.now(call_state::done);
        gone = std::move(front);
        calls_.pop_front();
        continue;
      }
      if (notes && began && front.begins) {
        front.notes.now(call_state::running);
        reached = std::exchange(front.begins, std::nullopt);
      }
      return;
    }
  }

  /// What CUDA tells when they are over, of those that wait now.
  [[nodiscard]] std::vector<cuda::event> events() const {
    std::scoped_lock const lock(mutex_);
    std::vector<cuda::event> out;
    for (auto const& one : calls_) out.push_back(one.done);
    return out;
  }

  /// Lets all go, which have run; `notes`: that is noted.
  void finish(bool notes) {
    std::deque<pending> gone;  // when the lock is
    std::scoped_lock const lock(mutex_);
    gone.swap(calls_);
    for (auto const& one : gone)
      if (notes) one.notes.now(call_state::done);
  }

  struct waited {
    std::chrono::milliseconds deadline;
    std::string text;
  };

  /// The first where it waits for longer than it may; asked at least every patience::pause.
  [[nodiscard]] std::optional<waited> late(steady_time now, std::string_view name) {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    auto& first = calls_.front();
    if (!first.limit) first.limit.emplace(first.deadline, now);
    if (!first.limit->over(now)) return std::nullopt;
    return waited{first.deadline, text_of(first, name)};
  }

  /// "call 7, all_reduce(sum) of 5 f32 over tensor at step.cpp:31"; none: nothing waits.
  [[nodiscard]] std::optional<std::string> first(std::string_view name) const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return text_of(calls_.front(), name);
  }

 private:
  struct both {
    cuda::event done;
    std::optional<cuda::event> begins;
  };
  [[nodiscard]] std::optional<both> events_of_first() const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return both{calls_.front().done, calls_.front().begins};
  }

  [[nodiscard]] static std::string text_of(pending const& one, std::string_view name) {
    return concat("call ", one.number, ", ", describe(signature_of(one.what, one.number, name)));
  }

  mutable std::mutex mutex_;
  std::deque<pending> calls_;
};

}  // namespace parallel::nccl
