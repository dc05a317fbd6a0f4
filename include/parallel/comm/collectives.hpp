// collectives: the typed functions that every communicator offers.
//
// A communicator derives from `collectives<itself, its stream type>` and provides rank(), size()
// and `submit(stream, operation)`; the functions here check the arguments on this rank, with the
// call site in the message, and build the operation. Everything is enqueued on the given stream and
// returns immediately; the spans must stay valid until the request is done (request::keep).
//
// All ranks must make the same calls in the same order, whatever streams they use for them.
// A rank's communicators are used by one thread at a time. While a rank's thread waits for a
// request, and no other thread has made calls for that rank, the rank is assumed to make no call
// until the thread wakes: a call of another rank that needs one is a deadlock
// (threads/wait_graph.hpp) and fails immediately.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/concepts.hpp>

namespace parallel {

namespace detail {

/// What a communicator refers to. Throws where it was moved from.
template <class Pointer>
[[nodiscard]] auto& held_by_communicator(Pointer const& pointer) {
  require(pointer != nullptr,
          "a communicator is called after it was moved from; call the one that it was moved to, "
          "such as process_groups::world()");
  return *pointer;
}

}  // namespace detail

template <class Derived, stream Stream = host::stream>
class collectives {
 public:
  using stream_type = Stream;
  using request_type = request_of<Stream>;

  /// Every rank's `inout` becomes the combination of all ranks' `inout`, with the same bits on
  /// every rank.
  ///
  ///     comm.all_reduce(stream, std::span(gradients), reduction::sum).wait();
  ///
  /// - `s`: the stream on which the call is enqueued, after the work that writes `inout`
  /// - `inout`: the elements, equally many on every rank
  /// - `combine`: `sum`, `max`, `min` or `tree_sum`; core/reduction.hpp defines the order
  /// - `caller`: the call site that error messages name, here and below
  template <transferable T>
  request_type all_reduce(Stream& s, std::span<T> inout, reduction combine,
                          call_site caller = call_site::current()) {
    check_same_type<T>("all_reduce", combine, caller);
    return self().submit(s, {.kind = operation_kind::all_reduce,
                             .type = dtype_of<T>,
                             .combine = combine,
                             .count = inout.size(),
                             .in = inout.data(),
                             .out = inout.data(),
                             .caller = caller});
  }

  /// Combines every rank's `in`, and leaves rank r the r-th of the size() equal shards of the
  /// result.
  ///
  ///     auto done = comm.reduce_scatter(stream, shard, gradients, reduction::sum);
  ///
  /// - `shard_out`: receives the shard; it may be the rank's own shard of `in`
  /// - `in`: size() times as many elements as `shard_out`
  /// - `combine`: as in all_reduce
  template <transferable T>
  request_type reduce_scatter(Stream& s, std::span<T> shard_out,
                              std::type_identity_t<std::span<T const>> in, reduction combine,
                              call_site caller = call_site::current()) {
    check_same_type<T>("reduce_scatter", combine, caller);
    check_shards("reduce_scatter", "input", std::span<T const>(shard_out), in, caller);
    return self().submit(s, {.kind = operation_kind::reduce_scatter,
                             .type = dtype_of<T>,
                             .combine = combine,
                             .count = shard_out.size(),
                             .in = in.data(),
                             .out = shard_out.data(),
                             .caller = caller});
  }

  /// reduce_scatter of bf16 numbers that are summed in float, in rank order (wide_sum).
  /// `shard_out` may not overlap `in`.
  request_type reduce_scatter(Stream& s, std::span<float> shard_out, std::span<bf16 const> in,
                              call_site caller = call_site::current()) {
    auto const ranks = static_cast<std::size_t>(self().size());
    require(in.size() == ranks * shard_out.size(), "reduce_scatter at ", caller, ": the input has ",
            in.size(), " elements, expected ", ranks, " shards of ", shard_out.size());
    return self().submit(s, {.kind = operation_kind::reduce_scatter,
                             .type = dtype::bf16,
                             .combine = reduction::wide_sum,
                             .count = shard_out.size(),
                             .in = in.data(),
                             .out = shard_out.data(),
                             .caller = caller});
  }

  /// `out` becomes the concatenation of all ranks' shards, in rank order.
  ///
  ///     comm.all_gather(stream, std::span(values), shard).wait();
  ///
  /// - `out`: size() times as many elements as `shard`
  /// - `shard`: of equal size on every rank; it may be the rank's own shard of `out`
  template <transferable T>
  request_type all_gather(Stream& s, std::span<T> out,
                          std::type_identity_t<std::span<T const>> shard,
                          call_site caller = call_site::current()) {
    check_shards("all_gather", "output", shard, std::span<T const>(out), caller);
    return self().submit(s, {.kind = operation_kind::all_gather,
                             .type = dtype_of<T>,
                             .count = shard.size(),
                             .in = shard.data(),
                             .out = out.data(),
                             .caller = caller});
  }

  /// Transposes shards between ranks: the i-th of the size() equal shards of rank r's `out` becomes
  /// the r-th shard of rank i's `in`. With 2 ranks:
  ///
  ///     rank 0: in {0, 1, 2, 3}    out {0, 1, 4, 5}
  ///     rank 1: in {4, 5, 6, 7}    out {2, 3, 6, 7}
  ///
  /// - `out`, `in`: of one size, a multiple of size(); they may not overlap
  template <transferable T>
  request_type all_to_all(Stream& s, std::span<T> out, std::type_identity_t<std::span<T const>> in,
                          call_site caller = call_site::current()) {
    auto const ranks = static_cast<std::size_t>(self().size());
    require(out.size() == in.size() && in.size() % ranks == 0, "all_to_all at ", caller,
            ": the input has ", in.size(), " elements and the output ", out.size(),
            ", expected the same multiple of ", ranks);
    require(are_disjoint<T>(in, out), "all_to_all at ", caller,
            ": the output overlaps the input; give it separate memory");
    return self().submit(s, {.kind = operation_kind::all_to_all,
                             .type = dtype_of<T>,
                             .count = in.size() / ranks,
                             .in = in.data(),
                             .out = out.data(),
                             .caller = caller});
  }

  /// Every rank's `inout` becomes a copy of rank `root`'s.
  ///
  ///     comm.broadcast(stream, std::span(seed), 0).wait();
  template <transferable T>
  request_type broadcast(Stream& s, std::span<T> inout, int root,
                         call_site caller = call_site::current()) {
    require(root >= 0 && root < self().size(), "broadcast at ", caller, ": root ", root,
            " is not a rank of this communicator of ", self().size());
    return self().submit(s, {.kind = operation_kind::broadcast,
                             .type = dtype_of<T>,
                             .peer = root,
                             .count = inout.size(),
                             .in = inout.data(),
                             .out = inout.data(),
                             .caller = caller});
  }

  /// Done when every rank's stream has reached its barrier.
  request_type barrier(Stream& s, call_site caller = call_site::current()) {
    return self().submit(s, {.caller = caller});
  }

  /// Sends `data` to the recv of rank `peer` with the same tag (matched in the order of the calls).
  /// Done when the data has been received, or earlier: two ranks that send to each other need a
  /// stream for each direction.
  ///
  ///     if (comm.rank() == 0) comm.send(stream, std::span(rows), 1).wait();
  ///     if (comm.rank() == 1) comm.recv(stream, std::span(rows), 0).wait();
  ///
  /// - `peer`: another rank of this communicator
  /// - `tag`: from 0 to max_tag
  template <class T>
  requires transferable<std::remove_const_t<T>> request_type
  send(Stream& s, std::span<T> data, int peer, int tag = 0,
       call_site caller = call_site::current()) {
    check_peer("send", "to", peer, tag, caller);
    return self().submit(s, {.kind = operation_kind::send,
                             .type = dtype_of<T>,
                             .peer = peer,
                             .tag = tag,
                             .count = data.size(),
                             .in = data.data(),
                             .caller = caller});
  }

  /// Receives what rank `peer` sends with the same tag; element type and count must agree.
  template <transferable T>
  request_type recv(Stream& s, std::span<T> data, int peer, int tag = 0,
                    call_site caller = call_site::current()) {
    check_peer("recv", "from", peer, tag, caller);
    return self().submit(s, {.kind = operation_kind::recv,
                             .type = dtype_of<T>,
                             .peer = peer,
                             .tag = tag,
                             .count = data.size(),
                             .out = data.data(),
                             .caller = caller});
  }

  /// Defaults for a communicator of the whole world; communicators that can be split hide them.
  [[nodiscard]] int world_rank(int rank) const { return rank; }
  [[nodiscard]] std::string_view name() const { return {}; }

  /// Message tags are 0 ... max_tag.
  static constexpr int max_tag = 16383;

 protected:
  collectives() = default;

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  template <class T>
  static void check_same_type(char const* name, reduction combine, call_site caller) {
    require(result_type(dtype_of<T>, combine) == dtype_of<T>, name, " at ", caller, ": a ",
            to_string(combine), " of ", to_string(dtype_of<T>),
            " has another result type; give reduce_scatter an output of that type");
  }

  template <class T>
  void check_shards(char const* name, char const* whole_name, std::span<T const> shard,
                    std::span<T const> whole, call_site caller) {
    auto const ranks = static_cast<std::size_t>(self().size());
    require(whole.size() == ranks * shard.size(), name, " at ", caller, ": the ", whole_name,
            " has ", whole.size(), " elements, expected ", ranks, " shards of ", shard.size());
    auto const own_shard = whole.data() + static_cast<std::size_t>(self().rank()) * shard.size();
    require(are_disjoint(shard, whole) || shard.data() == own_shard, name, " at ", caller,
            ": the shard overlaps the ", whole_name, " but is not this rank's own part of it");
  }

  template <class T>
  static bool are_disjoint(std::span<T const> a, std::span<T const> b) {
    std::compare_three_way const order;  // unlike <, a total order on pointers into two arrays
    return a.empty() || b.empty() || order(a.data(), b.data() + b.size()) >= 0 ||
           order(b.data(), a.data() + a.size()) >= 0;
  }

  void check_peer(char const* name, char const* word, int peer, int tag, call_site caller) {
    require(peer >= 0 && peer < self().size(), name, " at ", caller, ": rank ", peer,
            " is not in this communicator of ", self().size());
    require(peer != self().rank(), name, " at ", caller, ": ", word, " rank ", peer,
            " is to itself; copy instead");
    require(tag >= 0 && tag <= max_tag, name, " at ", caller, ": tag ", tag, " is not in 0 ... ",
            max_tag);
  }
};

}  // namespace parallel
