// reduction_bucket: gradients of a step that are summed over all data together.
//
// A bucket makes one call along each axis, so the cost per call is paid once.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/zero/gradient_sums.hpp>
#include <parallel/zero/partitioned_unit.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::zero {

/// The units, with elements T, must outlive the bucket.
template <class T>
class reduction_bucket {
 public:
  using gradient_type = accumulate_t<T>;

  /// Adds the gradients of one use, or those to which all uses have added.
  void add(partitioned_unit<T> const& unit, std::size_t use) { members_.push_back({&unit, use}); }

  [[nodiscard]] bool empty() const { return members_.empty(); }

  /// Enqueues on `stream` the sum over all data; afterwards each rank holds the sums of the range
  /// that it owns. Appends the requests to wait for; rounded sums have none and are complete when
  /// `stream` reaches that point. Empties the bucket. Ranks along shards and replicas must have
  /// filled it alike; neighbours along the tensor axis need not.
  template <class Comm, class Stream, class Requests>
  void reduce(shard_groups<Comm> const& axes, Stream& stream, Requests& requests,
              call_site caller = call_site::current()) {
    auto const members = std::exchange(members_, {});
    for (std::size_t first = 0; first < members.size();) {
      // the staging memory of rounded gradients holds one unit at a time
      std::size_t const count = members[first].unit->sums().rounds() ? 1 : members.size() - first;
      reduce_together(std::span(members).subspan(first, count), axes, stream, requests, caller);
      first += count;
    }
  }

 private:
  struct member {
    partitioned_unit<T> const* unit;
    std::size_t use;
  };

  template <class Comm, class Stream, class Requests>
  static void reduce_together(std::span<member const> members, shard_groups<Comm> const& axes,
                              Stream& stream, Requests& requests, call_site caller) {
    auto const& first = *members.front().unit;
    auto const& sums = first.sums();
    auto const combine = first.uses_tree() ? reduction::tree_sum : reduction::sum;
    auto const for_each = [&](auto&& f) {
      for (auto const& [unit, use] : members)
        for (std::size_t s = 0; s < unit->segments().size(); ++s)
          if (unit->is_trainable(s)) f(*unit, s, use);
    };
    std::vector<typename gradient_sums<gradient_type>::shard> shards;
    for_each([&](auto const& unit, std::size_t s, std::size_t use) {
      shards.push_back({unit.owned_gradients(s, use), unit.gradients(s, use).span()});
    });
    if (shards.empty()) return;
    auto const enqueue = [&](typename Comm::request_type request) {
      for_each([&](auto const& unit, std::size_t s, std::size_t use) {
        request.keep(unit.gradients(s, use).owner());
      });
      if (sums.rounds())
        request.detach();
      else
        requests.push_back(std::move(request));
    };
    if (first.position().shards > 1 && !first.gradients_sharded())
      enqueue(sums.reduce_scatter(*axes.shards, stream, shards, combine, caller));
    if (first.position().replicas > 1)
      enqueue(sums.all_reduce(*axes.replicas, stream, shards, combine, caller));
    for_each([&](auto const& unit, std::size_t s, std::size_t use) {
      if (auto* const neighbours = axes.addends(unit.layout().segments()[s].key.replication))
        enqueue(
            neighbours->all_reduce(stream, unit.owned_gradients(s, use), reduction::sum, caller));
    });
  }

  std::vector<member> members_;
};

/// Enqueues the sum over all data of the gradients of one unit, as a bucket does.
template <class T, class Comm, class Stream, class Requests>
void reduce(partitioned_unit<T> const& unit, shard_groups<Comm> const& axes, Stream& stream,
            std::size_t use, Requests& requests, call_site caller = call_site::current()) {
  reduction_bucket<T> bucket;
  bucket.add(unit, use);
  bucket.reduce(axes, stream, requests, caller);
}

}  // namespace parallel::zero
