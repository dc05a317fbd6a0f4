// register_units: registers the memory that a step's exchanges of parameters and gradients read and
// write with the communicators that carry them.
//
// These buffers live as long as the units. Temporary memory of a stream (scratch memory,
// activations) and memory that is exchanged rarely (optimizer states) is not registered.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/registered_memory.hpp>
#include <parallel/zero/shard_groups.hpp>
#include <parallel/zero/unit_set.hpp>

namespace parallel::zero {

/// The registrations, which must be destroyed before the communicators of axes_of(ranks), the
/// groups of units that `ranks` neighbours divide by experts; all ranks of these call this
/// function. Values are in the gathered memory and in the buffers they are gathered
/// into; gradients in the held memory, in the buffers they are reduced out of, and in the staging
/// memory where they are rounded.
template <class T, class Device, class Exchange, class AxesOf>
[[nodiscard]] std::vector<registered_memory> register_units(
    unit_set<T, Device, Exchange> const& units, AxesOf const& axes_of) {
  std::vector<registered_memory> out;
  auto const add = [&out](auto* comm, auto const& memory) {
    if (comm == nullptr || comm->size() == 1) return;
    if (auto registration = register_memory(*comm, memory)) out.push_back(std::move(registration));
  };
  auto const register_with = [&add](auto const& memory, auto*... comms) {
    (add(comms, memory), ...);
  };
  auto const dense = axes_of(1);
  for (auto const& values : units.value_buffers()) register_with(values, dense.gathers);
  for (auto const& gradients : units.gradient_buffers()) register_with(gradients, dense.shards);
  register_with(units.staging(), dense.shards, dense.replicas);
  for (auto const& unit : units.units()) {
    auto const axes = axes_of(unit.memory.layout().expert_ranks());
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& held = unit.memory.segments()[s];
      register_with(held.values, axes.gathers);
      auto* const neighbours = axes.addends(unit.memory.layout().segments()[s].key.replication);
      auto* const shards = unit.memory.gradients_sharded() ? nullptr : axes.shards;
      for (auto const& gradients : held.gradients)
        register_with(gradients, shards, axes.replicas, neighbours);
    }
  }
  return out;
}

}  // namespace parallel::zero
