// share_filled: the exchange after which a unit is whole of which every rank has filled a part
// (unit_place::filled), so that what all ranks hold is read once and not by each.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/zero/level.hpp>
#include <parallel/zero/partitioned_unit.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::zero {

/// Enqueues on `stream` the gathering of values and master weights, frozen ones included, and with
/// `states` the optimizer's, of what replicas own; then of the values that are held whole, from
/// those who own them. Bytes sent per rank, for R replicas, N shards, Ψ bytes of values and S of
/// what is owned beside: (Ψ/N + S)(R-1)/R + Ψ(N-1)/N.
template <class T, class Comm, class Stream, class Requests>
void share_filled(partitioned_unit<T> const& unit, shard_groups<Comm> const& axes, Stream& stream,
                  bool states, Requests& requests, call_site where = call_site::current()) {
  auto const& place = unit.place();
  if (place.replicas > 1) {
    call_group calls(*axes.replicas);
    auto const share = [&]<class U>(std::span<U> owned) {
      auto const mine = shard_of(std::ssize(owned), place.replica, place.replicas);
      std::span<U const> const part = owned.subspan(static_cast<std::size_t>(mine.begin),
                                                    static_cast<std::size_t>(mine.size()));
      calls.all_gather(stream, owned, part, where).leave_to_its_stream();
    };
    for (std::size_t s = 0; s < unit.segments().size(); ++s) {
      share(unit.owned_values(s));
      if (!unit.is_trainable(s)) continue;
      auto const& memory = unit.segments()[s];
      if constexpr (!std::is_same_v<T, accumulate_t<T>>) share(memory.master.span());
      if (states)
        for (auto const& state : memory.states) share(state.span());
    }
    requests.push_back(calls.end(stream, where));
  }
  if (place.shards == 1 || unit.parameters_sharded()) return;
  call_group calls(*axes.shards);
  for (std::size_t s = 0; s < unit.segments().size(); ++s) {
    std::span<T const> const own = unit.owned_values(s);
    calls.all_gather(stream, unit.segments()[s].values.span(), own, where).leave_to_its_stream();
  }
  requests.push_back(calls.end(stream, where));
}

}  // namespace parallel::zero
