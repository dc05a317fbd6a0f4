// nccl::gate: one thread of a rank at a time is inside NCCL, until the rank's communicators end.
//
// The gate's lock is never held in a call of NCCL or CUDA: whether the communicators have ended,
// and why, can be asked at any time, also while a call does not return.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/comm/aborted.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

namespace parallel::nccl {

/// The way in which this rank learned the reason why its communicators end.
enum class end_cause {
  reported,        // another rank or the caller gave the reason
  found_here,      // this rank's watchdog found an error
  timed_out_here,  // this rank's watchdog found that a call passed its deadline
};

/// Admits one thread at a time to NCCL. Thread-safe.
class gate {
 public:
  /// The right to call NCCL: the thread that holds a pass is inside NCCL until it destroys the
  /// pass.
  class pass {
   public:
    explicit pass(gate& owner) : owner_(&owner) {}
    pass(pass&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    pass(pass const&) = delete;
    pass& operator=(pass const&) = delete;
    ~pass() {
      if (owner_ != nullptr) owner_->leave();
    }

   private:
    gate* owner_;
  };

  /// Enters for `call`, a name that outlives the pass. Throws if the communicators have ended:
  /// `aborted`, or on the rank that has found the reason `timed_out` or `error`.
  [[nodiscard]] pass enter(std::string_view call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call_inside_.empty() || reason_; });
    throw_if_closed();
    call_inside_ = call;
    return pass(*this);
  }
  /// Enters for `call` without waiting. Returns std::nullopt if another thread is inside, or if the
  /// communicators have ended.
  [[nodiscard]] std::optional<pass> try_enter(std::string_view call) {
    std::scoped_lock const lock(mutex_);
    if (!call_inside_.empty() || reason_) return std::nullopt;
    call_inside_ = call;
    return std::optional<pass>(std::in_place, *this);
  }
  /// Enters for a call that ends a communicator, even if the communicators have ended.
  [[nodiscard]] pass enter_to_end(std::string_view call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call_inside_.empty(); });
    call_inside_ = call;
    return pass(*this);
  }

  /// Lets no thread enter from now on. Returns false, and does nothing, if there is a reason
  /// already.
  bool close(std::string reason, end_cause cause) {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_) return false;
      reason_ = std::move(reason);
      cause_ = cause;
    }
    changed_.notify_all();
    return true;
  }

  /// The reason why the communicators end; std::nullopt: the gate is open.
  [[nodiscard]] std::optional<std::string> reason() const {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }
  [[nodiscard]] bool is_closed() const {
    std::scoped_lock const lock(mutex_);
    return reason_.has_value();
  }
  /// Throws what `enter` throws if the communicators have ended.
  void check() const {
    std::scoped_lock const lock(mutex_);
    throw_if_closed();
  }
  /// The name of the NCCL call that a thread is making; empty: no thread is inside.
  [[nodiscard]] std::string call_inside() const {
    std::scoped_lock const lock(mutex_);
    return std::string(call_inside_);
  }

 private:
  void leave() {
    {
      std::scoped_lock const lock(mutex_);
      call_inside_ = {};
    }
    changed_.notify_all();
  }

  void throw_if_closed() const {
    if (!reason_) return;
    if (cause_ == end_cause::timed_out_here) throw timed_out(*reason_);
    if (cause_ == end_cause::found_here) throw error(*reason_);
    throw aborted(*reason_);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string_view call_inside_;
  std::optional<std::string> reason_;
  end_cause cause_ = end_cause::reported;
};

}  // namespace parallel::nccl
