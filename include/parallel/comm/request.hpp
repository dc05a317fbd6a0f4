// request: a communication that has been enqueued.
//
// Move-only. It can be waited for by a stream (nothing blocks but that stream) or by the host, and
// it can be given owners of buffers to keep alive until the operation has run: the operation holds
// them, so they live long enough even if the request does not. Destroying a request that nobody
// waited for waits for it: buffers are never left under a running operation by accident. If that
// happens while an exception leaves the scope, this rank gives up its operations first, because the
// other ranks may never come.
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel {

namespace detail {

/// Owners of buffers; lives exactly as long as the enqueued task.
struct kept {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> owners;
};

/// Where a request came from: whom to abort, as which rank, and whose thread runs it.
struct origin {
  std::shared_ptr<abortable> state;
  int rank = 0;
  std::thread::id worker = {};
};

/// Says, while it lives, that this thread waits.
class host_wait {
 public:
  host_wait(origin const& from, host::event const& done)
      : state_(from.state && !done.ready() ? from.state.get() : nullptr) {
    if (state_ != nullptr) state_->host_waits(done, from.worker);
  }
  host_wait(host_wait const&) = delete;
  host_wait& operator=(host_wait const&) = delete;
  ~host_wait() {
    if (state_ != nullptr) state_->host_goes_on();
  }

 private:
  abortable* state_;
};

}  // namespace detail

class [[nodiscard]] request {
 public:
  /// A request that is done.
  request() = default;

  request(host::event done, std::weak_ptr<detail::kept> kept, detail::origin from, operation op)
      : pending_(true),
        done_(std::move(done)),
        kept_(std::move(kept)),
        origin_(std::move(from)),
        operation_(op),
        exceptions_(std::uncaught_exceptions()) {}

  request(request&& other) noexcept { swap(other); }
  request& operator=(request&& other) noexcept {
    request taken(std::move(other));
    swap(taken);
    return *this;
  }
  request(request const&) = delete;
  request& operator=(request const&) = delete;

  /// Waits unless somebody did. Errors are dropped here; the stream of the operation keeps them.
  ~request() {
    try {
      settle();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the stream reports it
    }
  }

  /// Later work of `other`, a stream of any device, runs only after the operation; its failure
  /// fails `other`.
  template <class Stream>
  requires requires(Stream& s, host::event const& done) { s.wait(done); }
  void wait_on(Stream& other) {
    if (!done_) return;
    if constexpr (std::convertible_to<Stream&, host::stream&>) {
      other.wait(*done_);
    } else {  // its device cannot wait for the host's events: this thread does
      detail::host_wait const told(origin_, *done_);
      other.wait(*done_);
    }
    pending_ = false;  // not when that has thrown: then the destructor waits
  }

  /// Blocks the caller until the operation has run; rethrows its failure.
  void wait() {
    pending_ = false;
    if (!done_) return;
    detail::host_wait const told(origin_, *done_);
    done_->wait();
  }

  /// Like `wait`, until `deadline` at most; false when the deadline passed first.
  [[nodiscard]] bool wait_until(steady_time deadline) {
    if (done_ && !done_->wait_until(deadline)) return false;
    pending_ = false;
    return true;
  }

  /// For decorators whose requests stand for this one.
  [[nodiscard]] detail::origin const& from() const { return origin_; }

  /// Keeps `owner` alive until the operation has run (not longer).
  request& keep(std::shared_ptr<void> owner) & {
    if (auto const held = kept_.lock()) {
      std::scoped_lock const lock(held->mutex);
      held->owners.push_back(std::move(owner));
    }
    return *this;
  }
  request keep(std::shared_ptr<void> owner) && {
    keep(std::move(owner));
    return std::move(*this);
  }

 private:
  void swap(request& other) noexcept {
    std::swap(pending_, other.pending_);
    std::swap(done_, other.done_);
    std::swap(kept_, other.kept_);
    std::swap(origin_, other.origin_);
    std::swap(operation_, other.operation_);
    std::swap(exceptions_, other.exceptions_);
  }

  void settle() {
    if (!done_) return;
    if (origin_.state && std::uncaught_exceptions() > exceptions_ && !done_->ready())
      origin_.state->give_up(origin_.rank,
                             concat("an exception left rank ", origin_.rank, " before its ",
                                    describe(operation_), " had finished"));
    if (pending_) wait();
  }

  bool pending_ = false;
  std::optional<host::event> done_;  // none: nothing to wait for
  std::weak_ptr<detail::kept> kept_;
  detail::origin origin_;
  operation operation_;
  int exceptions_ = 0;
};

namespace detail {

/// Enqueues `work()`, the blocking form of `op`, and returns its request.
template <class Work>
request enqueue(host::stream& s, origin from, operation const& op, Work work) {
  from.worker = s.worker();
  auto owners = std::make_shared<kept>();
  std::weak_ptr<kept> const weak = owners;
  s.enqueue([owners = std::move(owners), work = std::move(work)]() mutable { work(); },
            {name_of(op.kind), op.bytes()});
  return {s.record(), weak, std::move(from), op};
}

}  // namespace detail
}  // namespace parallel
