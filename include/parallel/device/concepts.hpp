// What a device is: memory, and streams that run work in order beside the host and each other.
//
// Everything that takes time is enqueued on a stream; streams wait for each other's events, and the
// host waits for none until it needs a result. conformance/device.hpp holds devices to the laws.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/clock.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// A point in the work of a stream. Copies are the same point. `ready` never blocks; `wait` and
/// `wait_until` (false: the deadline passed first) block the calling thread and never spin. They
/// throw when the work before the point failed.
template <class E>
concept event = std::copyable<E> && requires(E const& mark, steady_time deadline) {
  { mark.ready() } -> std::same_as<bool>;
  mark.wait();
  { mark.wait_until(deadline) } -> std::same_as<bool>;
};

/// Runs what is enqueued on it in order, beside the host and other streams. `record` gives the
/// point that is reached when everything enqueued so far has run; after `wait(mark)` later work
/// runs when `mark`, an event of such a stream, is reached; `synchronize` blocks the caller until
/// the stream is empty, and throws the first failure.
template <class S>
concept stream = requires(S s, typename S::event_type const& mark) {
  requires event<typename S::event_type>;
  { s.record() } -> std::same_as<typename S::event_type>;
  s.wait(mark);
  s.synchronize();
};

/// One that runs tasks of the host: `enqueue(task)` appends a `void()`.
template <class S>
concept task_stream = stream<S> && requires(S& s, void (*task)()) {
  s.enqueue(task);
};

/// Whether a Stream waits for an Event by itself, so that the caller of wait(event) goes on: for
/// its own kind of events, and for all if it says so (`waits_for_any_event`). Else the caller is
/// held up.
template <class Stream, class Event>
inline constexpr bool waits_by_itself =
    std::same_as<Event, typename Stream::event_type> || requires {
  requires Stream::waits_for_any_event;
};

/// Gives out memory as `buffer`s, for elements that are trivially copyable: `allocate`,
/// `allocate_zeroed`, and `allocate_shared` (zeroed), which the host and the operations on
/// `stream_type` both reach. The meta device, which only counts, is one. Those with wishes about
/// memory that is exchanged have `allocate_exchanged` too (exchanged_memory.hpp).
template <class D>
concept memory_device = stream<typename D::stream_type> && requires(D d, std::size_t count) {
  { d.template allocate<float>(count) } -> std::same_as<buffer<float>>;
  { d.template allocate_zeroed<float>(count) } -> std::same_as<buffer<float>>;
  { d.template allocate_shared<float>(count) } -> std::same_as<buffer<float>>;
};

/// One that computes. A stream is made of `compute_options()`. `upload(to, from)` and
/// `download(to, from)` copy between the host's memory and the device's, and block; where
/// `host_reaches_memory` the host may also read and write it in place.
template <class D>
concept device = memory_device<D> &&
    requires(D const& d, std::span<float> to, std::span<float const> from) {
  { D::host_reaches_memory } -> std::convertible_to<bool>;
  requires std::constructible_from<typename D::stream_type, decltype(d.compute_options())>;
  d.upload(to, from);
  d.download(to, from);
};

}  // namespace parallel
