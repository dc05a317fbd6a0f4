// Communicator concepts: what algorithms may require, one concept for each collective.
//
// Templates name exactly the collectives they use: a backend without one of them still serves all
// other algorithms, and the compiler names a missing one where it is needed.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel {

/// One rank's handle of a group of `size()` ranks that can talk to each other. `world_rank(r)` is
/// the number of rank r in the group that this one was split from. `name()` is the axis, for
/// messages; it is empty for the whole world. `abort` makes every waiting rank that can be reached
/// fail with `aborted`, ranks outside of the group included.
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

/// `abort_reason()` gives the reason why this rank must stop waiting, if it has heard of one: the
/// reason of an abort by this rank or another one. It never blocks; any thread may call it.
template <class C>
concept tells_aborts = communicator<C> && requires(C c) {
  { c.abort_reason() } -> std::same_as<std::optional<std::string>>;
};

/// C combines arrays of T over all ranks, in place.
template <class C, class T>
concept has_all_reduce = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.all_reduce(s, x, reduction::sum) } -> std::same_as<typename C::request_type>;
};

/// C combines arrays of T over all ranks and leaves each rank its shard.
template <class C, class T>
concept has_reduce_scatter = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.reduce_scatter(s, out, in, reduction::sum) } -> std::same_as<typename C::request_type>;
};

/// C joins the shards of T of all ranks on every rank.
template <class C, class T>
concept has_all_gather = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.all_gather(s, out, in) } -> std::same_as<typename C::request_type>;
};

/// C sends each rank its own part of an array of T.
template <class C, class T>
concept has_all_to_all = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> out, std::span<T const> in) {
  { c.all_to_all(s, out, in) } -> std::same_as<typename C::request_type>;
};

/// C copies an array of T from one rank to all.
template <class C, class T>
concept has_broadcast = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.broadcast(s, x, 0) } -> std::same_as<typename C::request_type>;
};

/// C has a call that ends when all ranks have reached it.
template <class C>
concept has_barrier = communicator<C> && requires(C c, typename C::stream_type& s) {
  { c.barrier(s) } -> std::same_as<typename C::request_type>;
};

/// C sends arrays of T to one rank, with a tag.
template <class C, class T>
concept has_send = communicator<C> &&
    requires(C c, typename C::stream_type& s, std::span<T const> x) {
  { c.send(s, x, 0, 0) } -> std::same_as<typename C::request_type>;
};

/// C receives arrays of T from one rank, with a tag.
template <class C, class T>
concept has_recv = communicator<C> && requires(C c, typename C::stream_type& s, std::span<T> x) {
  { c.recv(s, x, 0, 0) } -> std::same_as<typename C::request_type>;
};

/// All collectives and messages, for one element type.
template <class C, class T>
concept has_collectives = has_all_reduce<C, T> && has_reduce_scatter<C, T> &&
    has_all_gather<C, T> && has_all_to_all<C, T> && has_broadcast<C, T> && has_barrier<C> &&
    has_send<C, T> && has_recv<C, T>;

/// A communicator that accepts operations as values, groups of operations included
/// (call_group.hpp). `collectives` derives all collectives from `submit`.
template <class C>
concept submits_operations = communicator<C> &&
    requires(C c, typename C::stream_type& s, operation op) {
  { c.submit(s, op) } -> std::same_as<typename C::request_type>;
};

/// A communicator that can exchange signatures before an operation, as decorators do.
/// `open_exchange` reserves the next position in the order of calls for an exchange; its argument
/// is the stream whose worker makes the exchange; without an argument the caller makes it.
template <class C>
concept has_submit = submits_operations<C> && requires(C c, typename C::stream_type& s) {
  { c.open_exchange() } -> std::same_as<signature_exchange>;
  { c.open_exchange(&s) } -> std::same_as<signature_exchange>;
};

/// Sends and receives may be members of one call (call_group.hpp), in which none waits for another.
/// Without this, each message is a separate call, and messages in both directions need two streams.
template <class C>
concept groups_messages = communicator<C> && requires {
  requires C::groups_messages;
};

/// `split(coloring, name)`: the communicator of the ranks of the same color, in rank order.
/// Collective: every rank calls it, and no call of a rank may still be waiting for another rank. It
/// blocks until all ranks have arrived, unless every rank knows all colors and the backend needs no
/// rendezvous. Calls of the sub-communicators and of the whole never mix. A mesh makes its axes
/// with it.
template <class C>
concept has_split = communicator<C> && requires(C c) {
  { c.split(coloring(0), std::string()) } -> std::same_as<C>;
};

/// Prepares `comm` for sends to the next rank and to the previous one, where the first rank follows
/// the last. Collective and blocking; does nothing where messages need no preparation. An NCCL
/// communicator makes a channel for each direction, since its operations run one after the other.
template <communicator C>
void connect_neighbours(C& comm) {
  if constexpr (requires { comm.connect_neighbours(); }) comm.connect_neighbours();
}

}  // namespace parallel
