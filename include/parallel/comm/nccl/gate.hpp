// nccl::gate: one thread of a rank at a time is inside NCCL, until the rank's communicators end.
//
// Its lock is held inside no call of NCCL or CUDA: who asks whether the communicators have ended,
// and why, is answered at once, also while a call does not return.
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

/// Who has found the reason for which communicators end.
enum class end_cause {
  told,  // another rank, or whoever called
  here,  // this rank's watchdog
  late,  // it too, since it has waited to the deadline
};

/// Thread-safe.
class gate {
 public:
  /// Its thread is inside, as long as it lives.
  class pass {
   public:
    explicit pass(gate& of) : of_(&of) {}
    pass(pass&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    pass(pass const&) = delete;
    pass& operator=(pass const&) = delete;
    ~pass() {
      if (of_ != nullptr) of_->leave();
    }

   private:
    gate* of_;
  };

  /// For `call`, a name that outlives the pass. Throws once the communicators end: `aborted`, or on
  /// the rank that has found why `timed_out` or `error`.
  [[nodiscard]] pass enter(std::string_view call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_.empty() || reason_; });
    throw_if_closed();
    inside_ = call;
    return pass(*this);
  }
  /// At once; none: another thread is inside, or the communicators end.
  [[nodiscard]] std::optional<pass> try_enter(std::string_view call) {
    std::scoped_lock const lock(mutex_);
    if (!inside_.empty() || reason_) return std::nullopt;
    inside_ = call;
    return std::optional<pass>(std::in_place, *this);
  }
  /// For a call that ends a communicator: whether all end or not.
  [[nodiscard]] pass enter_to_end(std::string_view call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_.empty(); });
    inside_ = call;
    return pass(*this);
  }

  /// From now on nobody enters. False, and nothing: there is a reason already.
  bool close(std::string reason, end_cause why) {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_) return false;
      reason_ = std::move(reason);
      cause_ = why;
    }
    changed_.notify_all();
    return true;
  }

  /// Why the communicators end; none: they do not.
  [[nodiscard]] std::optional<std::string> reason() const {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }
  [[nodiscard]] bool is_closed() const {
    std::scoped_lock const lock(mutex_);
    return reason_.has_value();
  }
  /// See enter.
  void check() const {
    std::scoped_lock const lock(mutex_);
    throw_if_closed();
  }
  /// The call that some thread is in; empty: none.
  [[nodiscard]] std::string inside() const {
    std::scoped_lock const lock(mutex_);
    return std::string(inside_);
  }

 private:
  void leave() {
    {
      std::scoped_lock const lock(mutex_);
      inside_ = {};
    }
    changed_.notify_all();
  }

  void throw_if_closed() const {
    if (!reason_) return;
    if (cause_ == end_cause::late) throw timed_out(*reason_);
    if (cause_ == end_cause::here) throw error(*reason_);
    throw aborted(*reason_);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string_view inside_;
  std::optional<std::string> reason_;
  end_cause cause_ = end_cause::told;
};

}  // namespace parallel::nccl
