// share_filled: the exchange that completes a unit of which every rank has filled a part
// (unit_position::filled), so that data that all ranks hold is read once in total, not once by
// each.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/error.hpp>
#include <parallel/zero/level.hpp>
#include <parallel/zero/partitioned_unit.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::zero {

/// Enqueues on `stream` the gathering over replicas of the owned values and master weights, frozen
/// ones included, and with `states` of the optimizer's states; then the gathering over shards of
/// the values that are held whole. Bytes sent per rank, for R replicas, N shards, Ψ bytes of values
/// and S bytes of owned master weights and states: (Ψ/N + S)(R-1)/R + Ψ(N-1)/N.
template <class T, class Comm, class Stream, class Requests>
void share_filled(partitioned_unit<T> const& unit, shard_groups<Comm> const& axes, Stream& stream,
                  bool states, Requests& requests, call_site caller = call_site::current()) {
  auto const& position = unit.position();
  if (position.replicas > 1) {
    call_group calls(*axes.replicas);
    auto const gather_replicas = [&]<class U>(std::span<U> owned) {
      auto const filled = shard_of(std::ssize(owned), position.replica, position.replicas);
      std::span<U const> const part = owned.subspan(static_cast<std::size_t>(filled.begin),
                                                    static_cast<std::size_t>(filled.size()));
      calls.all_gather(stream, owned, part, caller).detach();
    };
    for (std::size_t s = 0; s < unit.segments().size(); ++s) {
      gather_replicas(unit.owned_values(s));
      if (!unit.is_trainable(s)) continue;
      auto const& memory = unit.segments()[s];
      if constexpr (!std::is_same_v<T, accumulate_t<T>>) gather_replicas(memory.master.span());
      if (states)
        for (auto const& state : memory.states) gather_replicas(state.span());
    }
    requests.push_back(calls.end(stream, caller));
  }
  if (position.shards == 1 || unit.parameters_sharded()) return;
  call_group calls(*axes.shards);
  for (std::size_t s = 0; s < unit.segments().size(); ++s) {
    std::span<T const> const owned = unit.owned_values(s);
    calls.all_gather(stream, unit.segments()[s].values.span(), owned, caller).detach();
  }
  requests.push_back(calls.end(stream, caller));
}

}  // namespace parallel::zero
