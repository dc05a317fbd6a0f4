// axis_group: the ranks along one axis of the mesh, as a layer meets them inside a pass.
//
// A layer knows its compute stream; what it exchanges runs on the group's own stream, after what
// the compute stream has done so far, and later computation waits for it. On the meta device
// nothing moves: the bytes that would be sent are counted under the axis' name. A group that is
// made of nothing is one rank, and layers leave its exchanges out.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/meta/device.hpp>

namespace parallel {

template <class Axis, class Comm>
class axis_group {
 public:
  using stream_type = typename Comm::stream_type;

  /// One rank.
  axis_group() = default;

  /// The ranks of `comm`, whose exchanges run on `traffic`. Both must outlive the group.
  axis_group(Comm& comm, stream_type& traffic)
      : comm_(&comm), traffic_(&traffic), rank_(comm.rank()), size_(comm.size()) {}

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
    enqueue(compute, (size_ - 1) * shard.size_bytes(),
            [&] { return comm_->all_gather(*traffic_, out, shard, where); });
  }

  /// `shard` becomes this rank's part of the sum over ranks of `in`. Sent: (n-1)/n of `in`.
  template <class Stream, class T>
  void reduce_scatter(Stream& compute, std::span<T> shard,
                      std::type_identity_t<std::span<T const>> in,
                      call_site where = call_site::current()) const {
    enqueue(compute, (size_ - 1) * shard.size_bytes(),
            [&] { return comm_->reduce_scatter(*traffic_, shard, in, reduction::sum, where); });
  }

  /// `inout` becomes the sum (or maximum) over ranks. Sent: 2 (n-1)/n of it.
  template <class Stream, class T>
  void all_reduce(Stream& compute, std::span<T> inout, reduction combine = reduction::sum,
                  call_site where = call_site::current()) const {
    enqueue(compute, 2 * (size_ - 1) * inout.size_bytes() / size_,
            [&] { return comm_->all_reduce(*traffic_, inout, combine, where); });
  }

 private:
  template <class Stream, class Exchange>
  void enqueue(Stream& compute, std::size_t bytes, Exchange&& exchange) const {
    if constexpr (std::is_same_v<Stream, stream_type>) {
      traffic_->wait(compute.record());
      exchange().wait_on(compute);
    } else if constexpr (requires { compute.count_traffic(Axis::name, bytes); }) {
      compute.count_traffic(Axis::name, bytes);
    } else {
      fail("the group along ", Axis::name, " cannot exchange between streams of this device");
    }
  }

  Comm* comm_ = nullptr;
  stream_type* traffic_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace parallel
