// axis_group: the ranks along one axis of the mesh, as a layer meets them inside a pass.
//
// A layer knows its compute stream; what it exchanges runs on the group's own stream, after what
// the compute stream has done so far, and later computation waits for it. On the meta device
// nothing moves: the bytes that would be sent are counted under the axis' name. A group that is
// made of nothing is one rank, and layers leave its exchanges out.
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/meta/device.hpp>

namespace parallel {

/// An exchange that has begun: computation may go on beside it.
template <class Request>
class [[nodiscard]] exchange_under_way {
 public:
  /// One that is over.
  exchange_under_way() = default;
  exchange_under_way(Request sent, Request received)
      : sent_(std::move(sent)), received_(std::move(received)) {}

  /// Later work of `compute` may read what is received and overwrite what is sent.
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
  using under_way = exchange_under_way<request_type>;

  /// One rank.
  axis_group() = default;

  /// The ranks of `comm`, whose exchanges run on `exchanges`; what `shift` receives comes in on
  /// `back`, since a message is sent only while its receiver is there. All must outlive the group.
  axis_group(Comm& comm, stream_type& exchanges) : axis_group(comm, exchanges, nullptr) {}
  axis_group(Comm& comm, stream_type& exchanges, stream_type& back)
      : axis_group(comm, exchanges, &back) {}

  /// A place in a group for planning on the meta device, where nobody answers.
  [[nodiscard]] static axis_group planned(int rank, int size) {
    axis_group out;
    out.rank_ = rank;
    out.size_ = size;
    return out;
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool alone() const { return size_ == 1; }

  /// `out` becomes the shards of all ranks in rank order. Sent per rank: (n-1) shards.
  template <class Stream, class T>
  void all_gather(Stream& compute, std::span<T> out, std::type_identity_t<std::span<T const>> shard,
                  call_site where = call_site::current()) const {
    enqueue(compute, others() * shard.size_bytes(),
            [&] { return comm_->all_gather(*exchanges_, out, shard, where); });
    tell(compute, meta::exchange_kind::all_gather, out, shard);
  }

  /// `shard` becomes this rank's part of the sum over ranks of `in`. Sent: (n-1)/n of `in`.
  template <class Stream, class T>
  void reduce_scatter(Stream& compute, std::span<T> shard,
                      std::type_identity_t<std::span<T const>> in,
                      call_site where = call_site::current()) const {
    enqueue(compute, others() * shard.size_bytes(),
            [&] { return comm_->reduce_scatter(*exchanges_, shard, in, reduction::sum, where); });
    tell(compute, meta::exchange_kind::reduce_scatter, shard, in);
  }

  /// `inout` becomes the sum (or maximum) over ranks. Sent: 2 (n-1)/n of it.
  template <class Stream, class T>
  void all_reduce(Stream& compute, std::span<T> inout, reduction combine = reduction::sum,
                  call_site where = call_site::current()) const {
    enqueue(compute, 2 * others() * inout.size_bytes() / (others() + 1),
            [&] { return comm_->all_reduce(*exchanges_, inout, combine, where); });
    tell(compute, meta::exchange_kind::all_reduce, inout, std::span<T const>(inout));
  }

  /// The i-th of the size() shards of `out` becomes this rank's shard of rank i's `in`. Sent:
  /// (n-1)/n of `in`.
  template <class Stream, class T>
  void all_to_all(Stream& compute, std::span<T> out, std::type_identity_t<std::span<T const>> in,
                  call_site where = call_site::current()) const {
    enqueue(compute, in.size_bytes() / (others() + 1) * others(),
            [&] { return comm_->all_to_all(*exchanges_, out, in, where); });
    tell(compute, meta::exchange_kind::other, out, in);
  }

  /// Begins to send `out` to the rank `by` places on, the first after the last, and to receive `in`
  /// from the one as many before, after what the compute stream has done so far. Sent: `out`.
  template <class Stream, class T>
  under_way shift(Stream& compute, std::span<T> in, std::type_identity_t<std::span<T const>> out,
                  int by = 1, call_site where = call_site::current()) const {
    if constexpr (can_exchange<Stream>) {
      int const to = (rank_ + by) % size_, from = (rank_ + size_ - by) % size_;
      auto const ready = compute.record();
      exchanges_->wait(ready);
      if constexpr (groups_messages<Comm>) {
        call_group both(*comm_);
        static_cast<void>(both.send(*exchanges_, out, to, 0, where));
        static_cast<void>(both.recv(*exchanges_, in, from, 0, where));
        return {both.end(*exchanges_, where), {}};
      } else {
        require(back_ != nullptr, "axis_group::shift at ", where, ": the group along ", Axis::name,
                " needs a second stream for what comes in");
        back_->wait(ready);
        auto sent = comm_->send(*exchanges_, out, to, 0, where);
        return {std::move(sent), comm_->recv(*back_, in, from, 0, where)};
      }
    } else {
      count(compute, out.size_bytes());
      tell(compute, meta::exchange_kind::other, in, out);
      return {};
    }
  }

  /// Tells a stream of the meta device what an exchange made of several has come to. Nothing
  /// elsewhere.
  template <class Stream, class Out, class In>
  void tell([[maybe_unused]] Stream& compute, [[maybe_unused]] meta::exchange_kind kind,
            [[maybe_unused]] Out out, [[maybe_unused]] In in) const {
    if constexpr (requires { compute.exchange(Axis::name, kind, out, in); })
      compute.exchange(Axis::name, kind, out, in);
  }

 private:
  axis_group(Comm& comm, stream_type& exchanges, stream_type* back)
      : comm_(&comm), exchanges_(&exchanges), back_(back), rank_(comm.rank()), size_(comm.size()) {}

  /// Whether work on the stream can wait for an exchange, and an exchange for it.
  template <class Stream>
  static constexpr bool can_exchange = requires(Stream& compute, stream_type& exchanges,
                                                request_type done) {
    done.wait_on(compute);
    exchanges.wait(compute.record());
  }
  &&!requires(Stream & compute) { compute.count_traffic(Axis::name, 0); };

  [[nodiscard]] std::size_t others() const { return static_cast<std::size_t>(size_ - 1); }

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
  static void count(Stream& compute, std::size_t bytes) {
    if constexpr (requires { compute.count_traffic(Axis::name, bytes); })
      compute.count_traffic(Axis::name, bytes);
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
