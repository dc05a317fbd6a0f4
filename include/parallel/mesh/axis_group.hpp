// axis_group: the ranks along one axis of the mesh, as layers use them during a pass.
//
// A layer knows only its compute stream. Collectives run on the group's own stream: they start
// after the work that the compute stream has enqueued so far, and later work of the compute stream
// waits for them. On the meta device no data moves; the bytes that would be sent are counted under
// the name of the axis. A default-constructed group has one rank, and layers skip its collectives.
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/meta/device.hpp>

namespace parallel {

/// An exchange in progress. The compute stream may run other work until it waits for the exchange.
template <class Request>
class [[nodiscard]] pending_exchange {
 public:
  /// A finished exchange.
  pending_exchange() = default;
  pending_exchange(Request sent, Request received)
      : sent_(std::move(sent)), received_(std::move(received)) {}

  /// Makes later work of `compute` wait until received data may be read and sent data overwritten.
  template <class Stream>
  void wait_on(Stream& compute) {
    if constexpr (requires { sent_.wait_on(compute); }) {
      sent_.wait_on(compute);
      received_.wait_on(compute);
    }
  }

 private:
  Request sent_, received_;
};

template <class Axis, class Comm>
class axis_group {
 public:
  using stream_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;
  using exchange_type = pending_exchange<request_type>;

  /// A group of one rank.
  axis_group() = default;

  /// The ranks of `comm`; collectives run on `exchanges`. `shift` receives on the stream `back`,
  /// because a send completes only when its receive runs at the same time. `comm` and the streams
  /// must outlive the group.
  axis_group(Comm& comm, stream_type& exchanges) : axis_group(comm, exchanges, nullptr) {}
  axis_group(Comm& comm, stream_type& exchanges, stream_type& back)
      : axis_group(comm, exchanges, &back) {}

  /// Rank `rank` of a group of `size` ranks without a communicator, for planning on the meta
  /// device.
  [[nodiscard]] static axis_group planned(int rank, int size) {
    axis_group out;
    out.rank_ = rank;
    out.size_ = size;
    return out;
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool is_single_rank() const { return size_ == 1; }

  /// Fills `out` with the shards of all ranks in rank order. Each rank sends (n-1) shards.
  template <class Stream, class T>
  void all_gather(Stream& compute, std::span<T> out, std::type_identity_t<std::span<T const>> shard,
                  call_site caller = call_site::current()) const {
    enqueue(compute, peer_count() * shard.size_bytes(),
            [&] { return comm_->all_gather(*exchanges_, out, shard, caller); });
    note_exchange(compute, meta::exchange_kind::all_gather, out, shard);
  }

  /// Sets `shard` to this rank's shard of the sum of `in` over ranks. Each rank sends (n-1)/n of
  /// `in`.
  template <class Stream, class T>
  void reduce_scatter(Stream& compute, std::span<T> shard,
                      std::type_identity_t<std::span<T const>> in,
                      call_site caller = call_site::current()) const {
    enqueue(compute, peer_count() * shard.size_bytes(),
            [&] { return comm_->reduce_scatter(*exchanges_, shard, in, reduction::sum, caller); });
    note_exchange(compute, meta::exchange_kind::reduce_scatter, shard, in);
  }

  /// Sets `inout` to the sum (or maximum) over ranks. Each rank sends 2 (n-1)/n of it.
  template <class Stream, class T>
  void all_reduce(Stream& compute, std::span<T> inout, reduction combine = reduction::sum,
                  call_site caller = call_site::current()) const {
    enqueue(compute, 2 * peer_count() * inout.size_bytes() / (peer_count() + 1),
            [&] { return comm_->all_reduce(*exchanges_, inout, combine, caller); });
    note_exchange(compute, meta::exchange_kind::all_reduce, inout, std::span<T const>(inout));
  }

  /// Sets the i-th of the size() shards of `out` to this rank's shard of rank i's `in`. Each rank
  /// sends (n-1)/n of `in`.
  template <class Stream, class T>
  void all_to_all(Stream& compute, std::span<T> out, std::type_identity_t<std::span<T const>> in,
                  call_site caller = call_site::current()) const {
    enqueue(compute, in.size_bytes() / (peer_count() + 1) * peer_count(),
            [&] { return comm_->all_to_all(*exchanges_, out, in, caller); });
    note_exchange(compute, meta::exchange_kind::other, out, in);
  }

  /// Starts to send `out` to the rank `distance` positions after this one and to receive `in` from
  /// the rank `distance` positions before it, cyclically. The exchange starts after the work that
  /// the compute stream has enqueued so far.
  template <class Stream, class T>
  exchange_type shift(Stream& compute, std::span<T> in,
                      std::type_identity_t<std::span<T const>> out, int distance = 1,
                      call_site caller = call_site::current()) const {
    if constexpr (can_exchange<Stream>) {
      int const to = (rank_ + distance) % size_, from = (rank_ + size_ - distance) % size_;
      auto const ready = compute.record();
      exchanges_->wait(ready);
      if constexpr (groups_messages<Comm>) {
        call_group messages(*comm_);
        static_cast<void>(messages.send(*exchanges_, out, to, 0, caller));
        static_cast<void>(messages.recv(*exchanges_, in, from, 0, caller));
        return {messages.end(*exchanges_, caller), {}};
      } else {
        require(back_ != nullptr, "axis_group::shift at ", caller, ": the group along ", Axis::name,
                " needs a second stream to receive on");
        back_->wait(ready);
        auto sent = comm_->send(*exchanges_, out, to, 0, caller);
        return {std::move(sent), comm_->recv(*back_, in, from, 0, caller)};
      }
    } else {
      count(compute, out.size_bytes(), true);
      note_exchange(compute, meta::exchange_kind::other, in, out);
      return {};
    }
  }

  /// On a stream of the meta device, records the collective to which a sequence of shifts is
  /// equivalent, and its buffers. Does nothing on other streams.
  template <class Stream, class Out, class In>
  void note_exchange([[maybe_unused]] Stream& compute, [[maybe_unused]] meta::exchange_kind kind,
                     [[maybe_unused]] Out out, [[maybe_unused]] In in) const {
    if constexpr (requires { compute.exchange(Axis::name, kind, out, in); })
      compute.exchange(Axis::name, kind, out, in);
  }

 private:
  axis_group(Comm& comm, stream_type& exchanges, stream_type* back)
      : comm_(&comm), exchanges_(&exchanges), back_(back), rank_(comm.rank()), size_(comm.size()) {}

  /// Whether work on the stream can wait for an exchange, and an exchange for work on the stream.
  template <class Stream>
  static constexpr bool can_exchange = requires(Stream& compute, stream_type& exchanges,
                                                request_type pending) {
    pending.wait_on(compute);
    exchanges.wait(compute.record());
  }
  &&!requires(Stream & compute) { compute.count_traffic(Axis::name, 0); };

  [[nodiscard]] std::size_t peer_count() const { return static_cast<std::size_t>(size_ - 1); }

  template <class Stream, class Exchange>
  void enqueue(Stream& compute, std::size_t bytes, Exchange&& exchange) const {
    if constexpr (can_exchange<Stream>) {
      exchanges_->wait(compute.record());
      exchange().wait_on(compute);
    } else {
      count(compute, bytes);
    }
  }

  template <class Stream>
  static void count(Stream& compute, std::size_t bytes, bool is_shift = false) {
    if constexpr (requires { compute.count_traffic(Axis::name, bytes); })
      compute.count_traffic(Axis::name, bytes, is_shift);
    else
      fail("the group along ", Axis::name, " cannot exchange between streams of this device");
  }

  Comm* comm_ = nullptr;
  stream_type* exchanges_ = nullptr;
  stream_type* back_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace parallel
