// nccl::waiting_calls: the calls on one communicator that are not known to have completed.
//
// CUDA is called, and completed calls are released, without the lock: a call of CUDA may wait for
// one that another thread makes, which may wait for a kernel that only an abort ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nccl.h>

#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/cuda/event.hpp>

namespace parallel::nccl {

/// A call that has been enqueued and is not known to have completed.
struct pending_call {
  cuda::event completion;
  operation op;
  std::uint64_t number = 0;  ///< among the calls of its communicator
  std::shared_ptr<parallel::detail::buffer_owners> owners;
  call_notes notes = {};
  /// The event that the stream reaches when the call begins; reset once the call is noted as
  /// running.
  std::optional<cuda::event> begin = {};
  std::chrono::milliseconds deadline = {};
  std::optional<patience> limit = {};  ///< starts to count when no earlier call is waiting
};

/// Thread-safe. The calls run in the order in which they are added.
class waiting_calls {
 public:
  void add(pending_call call) {
    std::scoped_lock const lock(mutex_);
    calls_.push_back(std::move(call));
  }

  /// Removes the calls that CUDA reports as completed. Notes which calls are running or completed
  /// unless is_ended(), which is called after CUDA has answered, because CUDA also reports aborted
  /// calls as completed. Throws `error` when earlier work has failed.
  template <class IsEnded>
  void forget_completed(IsEnded const& is_ended) {
    for (;;) {
      auto const first = first_events();
      if (!first) return;
      bool const has_ended = first->completion.ready();
      bool const has_begun = has_ended || (first->begin && first->begin->ready());
      bool const updates_state = !is_ended();
      std::optional<pending_call> released;       // destroyed after the lock is released
      std::optional<cuda::event> released_event;  // destroyed after the lock is released
      std::scoped_lock const lock(mutex_);
      if (calls_.empty() || calls_.front().completion.get() != first->completion.get()) continue;
      auto& front = calls_.front();
      if (has_ended) {
        if (updates_state) front.notes.set_state(call_state::completed);
        released = std::move(front);
        calls_.pop_front();
        continue;
      }
      if (updates_state && has_begun && front.begin) {
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

  /// Releases all calls, none of which runs any more. `are_completed`: whether to note the calls as
  /// completed.
  void finish(bool are_completed) {
    std::deque<pending_call> released;  // destroyed after the lock is released
    std::scoped_lock const lock(mutex_);
    released.swap(calls_);
    for (auto const& call : released)
      if (are_completed) call.notes.set_state(call_state::completed);
  }

  /// A call that has waited for longer than its deadline, as text.
  struct overdue_call {
    std::chrono::milliseconds deadline;
    std::string text;
  };

  /// The first call if it has waited for longer than its deadline. Call this function at least
  /// every patience::max_pause. `group_name`: the communicator's name, for the text.
  [[nodiscard]] std::optional<overdue_call> overdue(steady_time time, std::string_view group_name) {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    auto& first = calls_.front();
    if (!first.limit) first.limit.emplace(first.deadline, time);
    if (!first.limit->is_over(time)) return std::nullopt;
    return overdue_call{first.deadline, describe_call(first, group_name)};
  }

  /// Describes the first call: "call 7, all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
  /// std::nullopt: no call waits.
  [[nodiscard]] std::optional<std::string> describe_first(std::string_view group_name) const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return describe_call(calls_.front(), group_name);
  }

 private:
  struct first_call_events {
    cuda::event completion;
    std::optional<cuda::event> begin;
  };
  [[nodiscard]] std::optional<first_call_events> first_events() const {
    std::scoped_lock const lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    return first_call_events{calls_.front().completion, calls_.front().begin};
  }

  [[nodiscard]] static std::string describe_call(pending_call const& call,
                                                 std::string_view group_name) {
    return concat("call ", call.number, ", ",
                  describe(signature_of(call.op, call.number, group_name)));
  }

  mutable std::mutex mutex_;
  std::deque<pending_call> calls_;
};

/// A communicator of this rank, with the calls that are enqueued on it. If it has only one rank,
/// there is no NCCL communicator, and `comm` is null.
struct member {
  std::atomic<ncclComm_t> comm = nullptr;  ///< an abort sets it to null
  std::string const name;
  waiting_calls waiting = {};
  std::deque<ncclWindow_t> windows =
      {};  ///< stay at their addresses, since NCCL writes them after the call

  /// The state that NCCL reports; ncclSuccess without a communicator. Does not call CUDA.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t out = ncclSuccess;
    if (ncclComm_t const current = comm; current != nullptr)
      static_cast<void>(ncclCommGetAsyncError(current, &out));
    return out;
  }
};

}  // namespace parallel::nccl
