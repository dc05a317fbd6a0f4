// reduction_bucket: gradients of a step that are summed over all data together.
//
// One call along an axis for all of a bucket: what costs by the call is paid once.
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

/// Of units with elements T, which must outlive it.
template <class T>
class reduction_bucket {
 public:
  using gradient_type = accumulate_t<T>;

  /// The gradients of one use, or those to which all uses have added.
  void add(partitioned_unit<T> const& unit, std::size_t use) { members_.push_back({&unit, use}); }

  [[nodiscard]] bool empty() const { return members_.empty(); }

  /// Enqueues on `stream` the sum over all data; afterwards each rank holds the sums of what it
  /// owns. Appends the requests to wait for; what is rounded has none, it is over when `stream` has
  /// come so far. Empties the bucket. Ranks along shards and replicas must have filled it alike;
  /// neighbours along the tensor axis need not have.
  template <class Comm, class Stream, class Requests>
  void reduce(shard_groups<Comm> const& axes, Stream& stream, Requests& requests,
              call_site where = call_site::current()) {
    auto const all = std::exchange(members_, {});
    for (std::size_t first = 0; first < all.size();) {
      // what is rounded has room for one unit at a time
      std::size_t const count = all[first].unit->sums().rounds() ? 1 : all.size() - first;
      reduce_together(std::span(all).subspan(first, count), axes, stream, requests, where);
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
                              Stream& stream, Requests& requests, call_site where) {
    auto const& first = *members.front().unit;
    auto const& sums = first.sums();
    auto const combine = first.by_tree() ? reduction::tree_sum : reduction::sum;
    auto const for_each = [&](auto&& f) {
      for (auto const& [unit, use] : members)
        for (std::size_t s = 0; s < unit->segments().size(); ++s)
          if (unit->is_trainable(s)) f(*unit, s, use);
    };
    std::vector<typename gradient_sums<gradient_type>::shard> all;
    for_each([&](auto const& unit, std::size_t s, std::size_t use) {
      all.push_back({unit.owned_gradients(s, use), unit.gradients(s, use).span()});
    });
    if (all.empty()) return;
    auto const enqueue = [&](typename Comm::request_type next) {
      for_each([&](auto const& unit, std::size_t s, std::size_t use) {
        next.keep(unit.gradients(s, use).owner());
      });
      if (sums.rounds())
        next.leave_to_its_stream();
      else
        requests.push_back(std::move(next));
    };
    if (first.place().shards > 1 && !first.gradients_sharded())
      enqueue(sums.reduce_scatter(*axes.shards, stream, all, combine, where));
    if (first.place().replicas > 1)
      enqueue(sums.all_reduce(*axes.replicas, stream, all, combine, where));
    for_each([&](auto const& unit, std::size_t s, std::size_t use) {
      if (auto* const neighbours = axes.addends(unit.layout().segments()[s].key.replication))
        enqueue(
            neighbours->all_reduce(stream, unit.owned_gradients(s, use), reduction::sum, where));
    });
  }

  std::vector<member> members_;
};

/// Enqueues the sum over all data of one unit's gradients alone, as a bucket does.
template <class T, class Comm, class Stream, class Requests>
void reduce(partitioned_unit<T> const& unit, shard_groups<Comm> const& axes, Stream& stream,
            std::size_t use, Requests& requests, call_site where = call_site::current()) {
  reduction_bucket<T> alone;
  alone.add(unit, use);
  alone.reduce(axes, stream, requests, where);
}

}  // namespace parallel::zero
