// Communicator concepts: what algorithms may ask for, one concept a collective.
//
// Templates name exactly the collectives they use, so that a backend that lacks one can still be
// used for everything else, and a missing one is named where it is needed.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/comm/signature_exchange.hpp>

namespace parallel {

/// A rank's end of a group of `size()` ranks that can talk to each other. `world_rank(r)` is what
/// rank r is called in the group that this one was split from, and `name()` the axis (empty: the
/// whole), for messages. `abort` makes every
/// waiting rank that can be reached fail with `aborted`, outside of the group too.
template <class C>
concept communicator = requires(C c, C const& fixed, std::string reason) {
  requires stream<typename C::stream_type>;
  requires std::same_as<typename C::request_type, request_of<typename C::stream_type>>;
  { fixed.rank() } -> std::same_as<int>;
  { fixed.size() } -> std::same_as<int>;
  { fixed.world_rank(0) } -> std::same_as<int>;
  { fixed.name() } -> std::convertible_to<std::string_view>;
  c.abort(reason);
};

/// `abort_reason()`: why this rank is not to wait any more, as far as it has been heard here: what
/// this rank or another one has aborted with. Waits for nobody; any thread may ask.
template <class C>
concept tells_aborts = communicator<C> && requires(C c) {
  { c.abort_reason() } -> std::same_as<std::optional<std::string>>;
};

template <class C, class T>
concept has_all_reduce = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.all_reduce(s, x, reduction::sum) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_reduce_scatter = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.reduce_scatter(s, out, in, reduction::sum) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_all_gather = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.all_gather(s, out, in) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_all_to_all = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.all_to_all(s, out, in) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_broadcast = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.broadcast(s, x, 0) } -> std::same_as<typename C::request_type>;
};

template <class C>
concept has_barrier = communicator<C> && requires(C c, typename C::stream_type& s) {
  { c.barrier(s) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_send = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T const> x) {
  { c.send(s, x, 0, 0) } -> std::same_as<typename C::request_type>;
};

template <class C, class T>
concept has_recv = communicator<C> && requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.recv(s, x, 0, 0) } -> std::same_as<typename C::request_type>;
};

/// Everything, for one element type.
template <class C, class T>
concept has_collectives = has_all_reduce<C, T> && has_reduce_scatter<C, T> &&
    has_all_gather<C, T> && has_all_to_all<C, T> && has_broadcast<C, T> && has_barrier<C> &&
    has_send<C, T> && has_recv<C, T>;

/// Operations as values, groups of them among those (call_group.hpp): what `collectives` is built
/// on, and so any communicator of one's own.
template <class C>
concept submits_operations = communicator<C> &&
    requires(C c, typename C::stream_type& s, operation op) {
  { c.submit(s, op) } -> std::same_as<typename C::request_type>;
};

/// What decorators are built on: signatures exchanged before operations, too. `open_exchange`
/// reserves the next exchange's place in the order of calls; it is given the stream whose worker
/// will call it, or nothing when the caller will.
template <class C>
concept has_submit = submits_operations<C> && requires(C c, typename C::stream_type& s) {
  { c.open_exchange() } -> std::same_as<signature_exchange>;
  { c.open_exchange(&s) } -> std::same_as<signature_exchange>;
};

/// Sends and receives may be parts of one call (call_group.hpp), where none waits for another.
/// Elsewhere a message is a call of its own, and two that go both ways need a stream each.
template <class C>
concept groups_messages = communicator<C> && requires {
  requires C::groups_messages;
};

/// `split(coloring, name)`: the communicator of the ranks of the same color, in their order.
/// Collective: every rank comes, with nothing of its own still waiting for another. It blocks until
/// they are there, unless every rank knows the colors of all and the backend need not meet.
/// Calls of the parts and of the whole never mix. This is what a mesh's axes are made of.
template <class C>
concept has_split = communicator<C> && requires(C c) {
  { c.split(coloring(0), std::string()) } -> std::same_as<C>;
};

}  // namespace parallel
