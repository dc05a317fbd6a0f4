// concepts: a device has memory and streams, which run work in order, concurrently with the host
// and with each other.
//
// Everything that takes time is enqueued on a stream. Streams wait for each other's events; the
// host waits only when it needs a result. conformance/device.hpp tests the laws that devices must
// obey.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include <parallel/core/clock.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// A point in the work of a stream. Copies denote the same point. `ready` never blocks. `wait` and
/// `wait_until` block the calling thread and do not spin; `wait_until` returns false if the
/// deadline passes first. They throw if the work before the point failed.
template <class E>
concept event = std::copyable<E> && requires(E const& mark, steady_time deadline) {
  { mark.ready() } -> std::same_as<bool>;
  mark.wait();
  { mark.wait_until(deadline) } -> std::same_as<bool>;
};

/// Runs enqueued work in order, concurrently with the host and other streams. `record` returns an
/// event that is reached when all work enqueued so far has run. After `wait(mark)` later work runs
/// only when `mark`, an event of a stream of this type, is reached. `synchronize` blocks the caller
/// until the stream is empty, and throws the first failure.
template <class S>
concept stream = requires(S s, typename S::event_type const& mark) {
  requires event<typename S::event_type>;
  { s.record() } -> std::same_as<typename S::event_type>;
  s.wait(mark);
  s.synchronize();
};

/// A stream that runs tasks of the host: `enqueue(task)` appends a callable `void()`.
template <class S>
concept task_stream = stream<S> && requires(S& s, void (*task)()) {
  s.enqueue(task);
};

/// Whether wait(event) of a Stream returns immediately and the stream itself waits for the Event.
/// That holds for its own event type, and for all events if it defines `waits_for_any_event` as
/// true. Otherwise wait(event) blocks the caller.
template <class Stream, class Event>
inline constexpr bool waits_asynchronously =
    std::same_as<Event, typename Stream::event_type> || requires {
  requires Stream::waits_for_any_event;
};

/// Allocates `buffer`s of trivially copyable elements: `allocate`, `allocate_zeroed`, and
/// `allocate_shared` (zeroed), whose memory the host and the operations on `stream_type` both
/// reach. The meta device, which only counts bytes, is a memory_device. A device may also have
/// `allocate_exchanged` for memory that ranks exchange (buffer.hpp).
template <class D>
concept memory_device = stream<typename D::stream_type> && requires(D d, std::size_t count) {
  { d.template allocate<float>(count) } -> std::same_as<buffer<float>>;
  { d.template allocate_zeroed<float>(count) } -> std::same_as<buffer<float>>;
  { d.template allocate_shared<float>(count) } -> std::same_as<buffer<float>>;
};

/// A memory_device that computes. Its streams are constructed from `compute_options()`.
/// `upload(to, from)` and `download(to, from)` copy between the host's memory and the device's, and
/// block. If `host_reaches_memory`, the host may also read and write the memory in place.
template <class D>
concept device = memory_device<D> &&
    requires(D const& d, std::span<float> to, std::span<float const> from) {
  { D::host_reaches_memory } -> std::convertible_to<bool>;
  requires std::constructible_from<typename D::stream_type, decltype(d.compute_options())>;
  d.upload(to, from);
  d.download(to, from);
};

/// The event of streams on which nothing is ever pending: it is always reached.
struct reached_event {
  void wait() const {}
  [[nodiscard]] bool ready() const { return true; }
  [[nodiscard]] bool wait_until(steady_time) const { return true; }
};

}  // namespace parallel
