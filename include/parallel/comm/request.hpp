// request: the completion of a communication that has been enqueued.
//
// Move-only. It stands for a point in the work of the stream that the communicator uses, whatever
// kind of stream that is: it can be waited for by a stream (nothing blocks but that stream) or by
// the host, or be left to its stream, and it can be given owners of buffers to keep alive until the
// operation has run: the operation holds them, so they live long enough even if the request does
// not. Destroying a request that nobody waited for waits for it: buffers are never left under a
// running operation by accident. If that happens while an exception leaves the scope, this rank
// gives up its operations first, because the other ranks may never come.
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

/// Says, while it lives, that this thread waits for an event.
template <class Event>
class host_wait final : public host_waiting {
 public:
  host_wait(origin const& from, Event const& done)
      : host_waiting(from.worker),
        done_(done),
        state_(from.state && !done.ready() ? from.state.get() : nullptr) {
    if (state_ != nullptr) state_->host_waits(*this);
  }
  ~host_wait() {
    if (state_ != nullptr) state_->host_goes_on();
  }

  [[nodiscard]] bool over() const override { return done_.ready(); }

 private:
  Event const& done_;
  abortable* state_;
};

}  // namespace detail

/// `Event`: of the streams that the communicator enqueues on.
template <event Event>
class [[nodiscard]] basic_request {
 public:
  /// A request that is done.
  basic_request() = default;

  basic_request(Event done, std::weak_ptr<detail::kept> kept, detail::origin from, operation op)
      : pending_(true),
        done_(std::move(done)),
        kept_(std::move(kept)),
        origin_(std::move(from)),
        operation_(op),
        exceptions_(std::uncaught_exceptions()) {}

  basic_request(basic_request&& other) noexcept { swap(other); }
  basic_request& operator=(basic_request&& other) noexcept {
    basic_request taken(std::move(other));
    swap(taken);
    return *this;
  }
  basic_request(basic_request const&) = delete;
  basic_request& operator=(basic_request const&) = delete;

  /// Waits unless somebody did. Errors are dropped here; the stream of the operation keeps them.
  ~basic_request() {
    try {
      settle();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the stream reports it
    }
  }

  /// Later work of `other`, a stream of any device, runs only after the operation; its failure
  /// fails `other`.
  template <class Stream>
  requires requires(Stream& s, Event const& done) { s.wait(done); }
  void wait_on(Stream& other) {
    if (!done_) return;
    if constexpr (waits_by_itself<Stream, Event>) {
      other.wait(*done_);
    } else {  // its device cannot wait for such events: this thread does
      detail::host_wait const told(origin_, *done_);
      other.wait(*done_);
    }
    pending_ = false;  // not when that has thrown: then the destructor waits
  }

  /// Says that whoever needs the operation waits for the stream on which it was enqueued, as later
  /// work there does anyway: the destructor does not.
  void leave_to_its_stream() { pending_ = false; }

  /// Blocks the caller until the operation has run; rethrows its failure.
  void wait() {
    pending_ = false;
    if (!done_) return;
    {
      detail::host_wait const told(origin_, *done_);
      done_->wait();
    }
    if (origin_.state) origin_.state->completed();
  }

  /// Like `wait`, until `deadline` at most; false when the deadline passed first.
  [[nodiscard]] bool wait_until(steady_time deadline) {
    if (done_ && !done_->wait_until(deadline)) return false;
    pending_ = false;
    if (done_ && origin_.state) origin_.state->completed();
    return true;
  }

  /// Whether the operation has run, or failed; never blocks.
  [[nodiscard]] bool ready() const { return !done_ || done_->ready(); }

  /// For decorators whose requests stand for this one.
  [[nodiscard]] detail::origin const& from() const { return origin_; }

  /// Keeps `owner` alive until the operation has run (not longer).
  basic_request& keep(std::shared_ptr<void> owner) & {
    if (auto const held = kept_.lock()) {
      std::scoped_lock const lock(held->mutex);
      held->owners.push_back(std::move(owner));
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
  std::optional<Event> done_;  // none: nothing to wait for
  std::weak_ptr<detail::kept> kept_;
  detail::origin origin_;
  operation operation_;
  int exceptions_ = 0;
};

/// The request of communicators that enqueue on a Stream.
template <stream Stream>
using request_of = basic_request<typename Stream::event_type>;

/// The request of communicators that enqueue on a host's stream.
using request = request_of<host::stream>;

namespace detail {

/// Enqueues `work()`, the blocking form of `op`, and returns its request.
template <task_stream Stream, class Work>
request_of<Stream> enqueue(Stream& s, origin from, operation const& op, Work work) {
  if constexpr (requires { s.worker(); }) from.worker = s.worker();
  auto owners = std::make_shared<kept>();
  std::weak_ptr<kept> const weak = owners;
  auto task = [owners = std::move(owners), work = std::move(work)]() mutable { work(); };
  if constexpr (requires { s.enqueue(std::move(task), {name_of(op.kind), op.bytes()}); })
    s.enqueue(std::move(task), {name_of(op.kind), op.bytes()});  // what traces call it
  else
    s.enqueue(std::move(task));
  return {s.record(), weak, std::move(from), op};
}

}  // namespace detail
}  // namespace parallel
