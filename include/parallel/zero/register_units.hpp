// register_units: what a step's exchanges of parameters and gradients read and write is registered
// with the communicators that carry it.
//
// These buffers live as long as the units. What a stream takes for a while (scratch memory,
// activations) and what is exchanged seldom (optimizer states) is not registered.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/registered_memory.hpp>
#include <parallel/zero/shard_groups.hpp>
#include <parallel/zero/unit_set.hpp>

namespace parallel::zero {

/// What must go before the communicators of `axes`, whose ranks all call this. Values lie in what
/// is gathered and in the buffers they are gathered into; gradients in what is held, in the buffers
/// they are reduced out of, and where they are rounded.
template <class T, class Device, class Exchange, class Comm>
[[nodiscard]] std::vector<registered_memory> register_units(
    unit_set<T, Device, Exchange> const& units, shard_groups<Comm> const& axes) {
  std::vector<registered_memory> out;
  auto const add = [&out](Comm* comm, auto const& memory) {
    if (comm == nullptr || comm->size() == 1) return;
    if (auto one = register_memory(*comm, memory)) out.push_back(std::move(one));
  };
  auto const with = [&add](auto const& memory, auto*... comms) { (add(comms, memory), ...); };
  for (auto const& values : units.value_buffers()) with(values, axes.gathers);
  for (auto const& gradients : units.gradient_buffers()) with(gradients, axes.shards);
  with(units.staging(), axes.shards, axes.replicas);
  for (auto const& unit : units.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& held = unit.memory.segments()[s];
      with(held.values, axes.gathers);
      auto* const neighbours = axes.addends(unit.memory.layout().segments()[s].key.replication);
      auto* const shards = unit.memory.gradients_sharded() ? nullptr : axes.shards;
      for (auto const& gradients : held.gradients)
        with(gradients, shards, axes.replicas, neighbours);
    }
  return out;
}

}  // namespace parallel::zero
