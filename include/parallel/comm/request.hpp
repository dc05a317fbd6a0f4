// request: the completion of a communication that has been enqueued.
//
// A request is move-only. It stands for a point in the work of the stream that the communicator
// uses, whatever type the stream has. A stream can wait for it (only that stream is held up), the
// host can wait for it, or it can be detached. It can also be given owners of buffers: the enqueued
// operation keeps them alive until it has run, even if the request is destroyed earlier. Destroying
// a request that nobody waited for waits for it, so that buffers are never freed under a running
// operation by accident. If an exception leaves the scope at that moment, this rank gives up its
// pending operations first, because the other ranks may never join them.
#pragma once

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
#include <parallel/device/concepts.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel {

namespace detail {

/// Owners of buffers; the enqueued task holds them exactly as long as it exists.
struct buffer_owners {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> owners;
};

/// The origin of a request: the state to abort, the rank that made the call, and the thread that
/// runs the call.
struct origin {
  std::shared_ptr<abortable> state;
  int rank = 0;
  std::thread::id worker = {};
};

/// Reports, while it lives, that the calling thread waits for an event.
template <class Event>
class event_wait final : public host_wait {
 public:
  event_wait(origin const& request_origin, Event const& completion)
      : host_wait(request_origin.worker),
        completion_(completion),
        state_(request_origin.state && !completion.ready() ? request_origin.state.get() : nullptr) {
    if (state_ != nullptr) state_->begin_host_wait(*this);
  }
  ~event_wait() {
    if (state_ != nullptr) state_->end_host_wait();
  }

  [[nodiscard]] bool is_over() const override { return completion_.ready(); }

 private:
  Event const& completion_;
  abortable* state_;
};

}  // namespace detail

/// `Event` is the event type of the streams that the communicator enqueues on.
template <event Event>
class [[nodiscard]] basic_request {
 public:
  /// A request that is done.
  basic_request() = default;

  basic_request(Event completion, std::weak_ptr<detail::buffer_owners> buffer_owners,
                detail::origin origin, operation op)
      : pending_(true),
        completion_(std::move(completion)),
        owners_(std::move(buffer_owners)),
        origin_(std::move(origin)),
        operation_(op),
        exceptions_(std::uncaught_exceptions()) {}

  basic_request(basic_request&& other) noexcept { swap(other); }
  basic_request& operator=(basic_request&& other) noexcept {
    basic_request moved(std::move(other));
    swap(moved);
    return *this;
  }
  basic_request(basic_request const&) = delete;
  basic_request& operator=(basic_request const&) = delete;

  /// Waits unless that was done already. Errors are dropped here; the stream keeps them.
  ~basic_request() {
    try {
      settle();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the stream reports it
    }
  }

  /// Later work of `other`, a stream of any device, runs only after the operation; its failure
  /// fails `other`.
  template <class Stream>
  requires requires(Stream& s, Event const& completion) { s.wait(completion); }
  void wait_on(Stream& other) {
    if (!completion_) return;
    if constexpr (waits_asynchronously<Stream, Event>) {
      other.wait(*completion_);
    } else {  // the stream's device cannot wait for such events, so that this thread waits
      detail::event_wait const waiting(origin_, *completion_);
      other.wait(*completion_);
    }
    pending_ = false;  // after an exception it stays true, and the destructor waits
  }

  /// The destructor does not wait: whatever needs the result runs later on the stream of the
  /// operation.
  void detach() { pending_ = false; }

  /// Blocks the caller until the operation has run; rethrows its failure.
  void wait() {
    pending_ = false;
    if (!completion_) return;
    {
      detail::event_wait const waiting(origin_, *completion_);
      completion_->wait();
    }
    if (origin_.state) origin_.state->collect_completed();
  }

  /// Like `wait`, until `deadline` at most; false when the deadline has passed.
  [[nodiscard]] bool wait_until(steady_time deadline) {
    if (completion_ && !completion_->wait_until(deadline)) return false;
    pending_ = false;
    if (completion_ && origin_.state) origin_.state->collect_completed();
    return true;
  }

  /// Whether the operation has run, or failed; never blocks.
  [[nodiscard]] bool ready() const { return !completion_ || completion_->ready(); }

  /// The origin, for decorators whose requests stand for this one.
  [[nodiscard]] detail::origin const& origin() const { return origin_; }

  /// Keeps `owner` alive until the operation has run (not longer).
  basic_request& keep(std::shared_ptr<void> owner) & {
    if (auto const owners = owners_.lock()) {
      std::scoped_lock const lock(owners->mutex);
      owners->owners.push_back(std::move(owner));
    }
    return *this;
  }
  basic_request keep(std::shared_ptr<void> owner) && {
    keep(std::move(owner));
    return std::move(*this);
  }

 private:
  void swap(basic_request& other) noexcept {
    std::swap(pending_, other.pending_);
    std::swap(completion_, other.completion_);
    std::swap(owners_, other.owners_);
    std::swap(origin_, other.origin_);
    std::swap(operation_, other.operation_);
    std::swap(exceptions_, other.exceptions_);
  }

  void settle() {
    if (!completion_) return;
    if (origin_.state && std::uncaught_exceptions() > exceptions_ && !completion_->ready())
      origin_.state->give_up(origin_.rank,
                             concat("an exception left rank ", origin_.rank, " before its ",
                                    describe(operation_), " had finished"));
    if (pending_) wait();
  }

  bool pending_ = false;
  std::optional<Event> completion_;  // empty: there is nothing to wait for
  std::weak_ptr<detail::buffer_owners> owners_;
  detail::origin origin_;
  operation operation_;
  int exceptions_ = 0;
};

/// The request type of communicators that enqueue on a Stream.
template <stream Stream>
using request_of = basic_request<typename Stream::event_type>;

/// The request type of communicators that enqueue on a host stream.
using request = request_of<host::stream>;

namespace detail {

/// Enqueues `work()`, the blocking form of `op`, and returns its request.
template <task_stream Stream, class Work>
request_of<Stream> enqueue(Stream& s, origin request_origin, operation const& op, Work work) {
  if constexpr (requires { s.worker(); }) request_origin.worker = s.worker();
  auto owners = std::make_shared<buffer_owners>();
  std::weak_ptr<buffer_owners> const weak = owners;
  auto task = [owners = std::move(owners), work = std::move(work)]() mutable { work(); };
  if constexpr (requires { s.enqueue(std::move(task), {to_string(op.kind), op.bytes()}); })
    s.enqueue(std::move(task), {to_string(op.kind), op.bytes()});  // the name that traces show
  else
    s.enqueue(std::move(task));
  return {s.record(), weak, std::move(request_origin), op};
}

}  // namespace detail
}  // namespace parallel
