// reduce: sums the gradients of a step over all data, for several units together.
//
// The units of a call, a bucket, share one call along each axis, so the cost per call is paid once.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/error.hpp>
#include <parallel/zero/gradient_sums.hpp>
#include <parallel/zero/partitioned_unit.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::zero {

/// The gradients of one use of a unit, or those to which all joined uses have added.
template <class T>
struct unit_gradients {
  partitioned_unit<T> const* unit;
  std::size_t use;
};

namespace detail {

template <class T, class Comm, class Stream, class Requests>
void reduce_together(std::span<unit_gradients<T> const> bucket, shard_groups<Comm> const& axes,
                     Stream& stream, Requests& requests, call_site caller) {
  auto const& first = *bucket.front().unit;
  auto const& sums = first.sums();
  auto const combine = first.uses_tree() ? reduction::tree_sum : reduction::sum;
  auto const for_each = [&](auto&& f) {
    for (auto const& [unit, use] : bucket)
      for (std::size_t s = 0; s < unit->segments().size(); ++s)
        if (unit->is_trainable(s)) f(*unit, s, use);
  };
  std::vector<typename gradient_sums<accumulate_t<T>>::shard> shards;
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
      enqueue(neighbours->all_reduce(stream, unit.owned_gradients(s, use), reduction::sum, caller));
  });
}

}  // namespace detail

/// Enqueues on `stream` the sum over all data; afterwards each rank holds the sums of the range
/// that it owns. Appends the requests to wait for; rounded sums have none and are complete when
/// `stream` reaches that point. Ranks along shards and replicas must pass the same bucket;
/// neighbours along the tensor axis need not. The units must outlive the requests.
template <class T, class Comm, class Stream, class Requests>
void reduce(std::span<unit_gradients<T> const> bucket, shard_groups<Comm> const& axes,
            Stream& stream, Requests& requests, call_site caller = call_site::current()) {
  for (std::size_t first = 0; first < bucket.size();) {
    // the staging memory of rounded gradients holds one unit at a time
    std::size_t const count = bucket[first].unit->sums().rounds() ? 1 : bucket.size() - first;
    detail::reduce_together(bucket.subspan(first, count), axes, stream, requests, caller);
    first += count;
  }
}

/// The same for the gradients of one unit.
template <class T, class Comm, class Stream, class Requests>
void reduce(partitioned_unit<T> const& unit, shard_groups<Comm> const& axes, Stream& stream,
            std::size_t use, Requests& requests, call_site caller = call_site::current()) {
  unit_gradients<T> const bucket[] = {{&unit, use}};
  reduce(std::span<unit_gradients<T> const>(bucket), axes, stream, requests, caller);
}

}  // namespace parallel::zero
