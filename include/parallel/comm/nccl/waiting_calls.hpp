// nccl::waiting_calls: the calls on one communicator that are not known to have completed.
//
// CUDA is called, and completed calls are released, without the lock: a call of CUDA may wait for
// one that another thread makes, which may wait for a kernel that only an abort ends.
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
  cuda::event completion;
  operation op;
  std::uint64_t number = 0;  // among the communicator's calls
  std::shared_ptr<parallel::detail::buffer_owners> owners;
  call_notes notes = {};
  std::optional<cuda::event> begin = {};  // when the stream reaches it; until that is noted
  std::chrono::milliseconds deadline = {};
  std::optional<patience> limit = {};  // begins when it is the first call
};

/// Thread-safe. The calls run in the order in which they are added.
class waiting_calls {
 public:
  void add(pending call) {
    std::scoped_lock const lock(mutex_);
    calls_.push_back(std::move(call));
  }

  /// Removes completed calls, as reported by CUDA, and notes which calls have begun and completed,
  /// unless is_ended(). That is asked after CUDA has answered, since an aborted call seems to have
  /// run. Throws `error` when earlier work has failed.
  template <class IsEnded>
  void forget_completed(IsEnded const& is_ended) {
    for (;;) {
      auto const first = events_of_first();
      if (!first) return;
      bool const has_ended = first->completion.ready();
      bool const has_begun = has_ended || (first->begin && first->begin->ready());
      bool const writes_notes = !is_ended();
      std::optional<pending> released;            // destroyed after the lock is released
      std::optional<cuda::event> released_event;  // likewise
      std::scoped_lock const lock(mutex_);
      if (calls_.empty() || calls_.front().completion.get() != first->completion.get()) continue;
      auto& front = calls_.front();
      if (has_ended) {
        if (writes_notes) front.notes.set_state(call_state::completed);
        released = std::move(front);
        calls_.pop_front();
        continue;
      }
      if (writes_notes && has_begun && front.begin) {
        front.notes.set_state(call_state::running);
        released_event = std::exchange(front.begin, std::nullopt);
      }
      return;
    }
  }

  /// The events of the waiting calls, which CUDA reaches when they complete.
  [[nodiscard]] std::vector<cuda::event> events() const {
    std::scoped_lock const lock(mutex_);
    std::vector<cuda::event> out;
    for (auto const& call : calls_) out.push_back(call.completion);
    return out;
  }

  /// Releases all calls, which have run; `notes` says whether to note that.
  void finish(bool notes) {
    std::deque<pending> released;  // destroyed after the lock is released
    std::scoped_lock const lock(mutex_);
    released.swap(calls_);
    for (auto const& call : released)
      if (notes) call.notes.set_state(call_state::completed);
  }

  struct overdue_call {
    std::chrono::milliseconds deadline;
    std::string text;
  };

  /// The first call if it waits for too long; to be called at least every patience::max_pause.
  [[nodiscard]] std::optional<overdue_call> overdue(steady_time time, std::string_view name) {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    auto& first = calls_.front();
    if (!first.limit) first.limit.emplace(first.deadline, time);
    if (!first.limit->is_over(time)) return std::nullopt;
    return overdue_call{first.deadline, text_of(first, name)};
  }

  /// "call 7, all_reduce(sum) of 5 f32 over tensor at step.cpp:31"; empty: no call waits.
  [[nodiscard]] std::optional<std::string> first(std::string_view name) const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return text_of(calls_.front(), name);
  }

 private:
  struct first_call_events {
    cuda::event completion;
    std::optional<cuda::event> begin;
  };
  [[nodiscard]] std::optional<first_call_events> events_of_first() const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return first_call_events{calls_.front().completion, calls_.front().begin};
  }

  [[nodiscard]] static std::string text_of(pending const& call, std::string_view name) {
    return concat("call ", call.number, ", ", describe(signature_of(call.op, call.number, name)));
  }

  mutable std::mutex mutex_;
  std::deque<pending> calls_;
};

}  // namespace parallel::nccl
