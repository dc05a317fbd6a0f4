// update: one optimizer step over the owned range of a unit. Optimizers of whole tensors make it in
// three calls: begin_update, exchange_update, update.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include <parallel/optim/whole_tensors.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::zero {

/// The trained segments of a unit, by the group of their optimizer.
template <class T>
[[nodiscard]] std::map<std::size_t, std::vector<std::size_t>> trained_segments(
    unit<T> const& layout) {
  std::map<std::size_t, std::vector<std::size_t>> out;
  for (std::size_t s = 0; s < layout.segments().size(); ++s)
    if (auto const& key = layout.segments()[s].key; key.trainable)
      out[static_cast<std::size_t>(key.group)].push_back(s);
  return out;
}

/// The tensors in some segments of a unit, as optimizers see them at `position`.
template <class T>
[[nodiscard]] unit_tensors<T> tensors_of(unit<T> const& layout, unit_position const& position,
                                         std::vector<std::size_t> const& segments) {
  unit_tensors<T> out;
  for (std::size_t const s : segments) {
    auto const& segment = layout.segments()[s];
    auto const owned = position.owned(segment.size);
    for (auto const& [parameter, offset] : segment.parameters) {
      auto found = std::ranges::find(out.tensors, parameter->name, &trained_tensor<T>::name);
      if (found == out.tensors.end()) found = out.tensors.insert(found, trained_tensor<T>{});
      found->pieces.push_back({parameter, out.segments.size(), offset,
                               position.tensor % parameter->replication.ranks == 0});
    }
    out.segments.push_back({segment.size, owned.begin, owned.end});
  }
  return out;
}

/// Calls f(optimizer, segments, tensors, memory) for each group of a unit whose optimizer takes
/// whole tensors, with separate memory in `workspace` for each.
template <class T, class Optimizer, class F>
void for_each_tensor_optimizer(unit<T> const& layout, unit_position const& position,
                               std::span<Optimizer const> optimizers, arena& workspace, F&& f) {
  if constexpr (tensor_optimizer<Optimizer>) {
    arena::scope const temporaries(workspace);
    for (auto const& [group, segments] : trained_segments(layout)) {
      if (!takes_whole_tensors(optimizers[group])) continue;
      auto const tensors = tensors_of(layout, position, segments);
      auto memory = workspace.cut(optimizers[group].template workspace_bytes<T>(tensors));
      f(optimizers[group], segments, tensors, memory);
    }
  }
}

/// The memory that the optimizers, by group, need to update a unit at `position`, which all units
/// can share; 0 for element-wise ones. Throws `error` where an optimizer cannot train a tensor.
template <class T, class Optimizer>
[[nodiscard]] std::size_t workspace_bytes(unit<T> const& layout, unit_position const& position,
                                          std::span<Optimizer const> optimizers) {
  arena measured;
  for_each_tensor_optimizer(layout, position, optimizers, measured, [](auto const&...) {});
  return measured.peak();
}

/// Whether an update of the unit needs parts of it that other ranks hold.
template <class T, class Optimizer>
[[nodiscard]] bool exchanges_update(unit<T> const& layout, unit_position const& position,
                                    std::span<Optimizer const> optimizers) {
  bool out = false;
  arena measured;
  for_each_tensor_optimizer(layout, position, optimizers, measured,
                            [&](auto const&, auto const&, auto const& tensors, auto&) {
                              out = out || position.shards > 1 || tensors.is_divided();
                            });
  return out;
}

/// An optimizer that can update units of T: a rule over ranges of elements, or over whole tensors.
template <class O, class Stream, class T>
concept updates_units =
    tensor_optimizer<O> || optimizer<O, Stream, T, typename partitioned_unit<T>::summed_gradient>;

/// The ranges of these segments of a unit, as optimizers update them.
template <class T>
[[nodiscard]] auto owned_ranges(partitioned_unit<T> const& unit,
                                std::vector<std::size_t> const& segments,
                                std::vector<std::vector<std::span<accumulate_t<T>>>>& states) {
  using summed = typename partitioned_unit<T>::summed_gradient;
  std::vector<update_ranges<T, summed>> out;
  states.resize(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    auto const& memory = unit.segments()[segments[i]];
    for (auto const& state : memory.states) states[i].push_back(state.span());
    out.push_back({unit.owned_values(segments[i]), memory.master.span(), states[i],
                   summed{unit.owned_gradients(segments[i])}});
  }
  return out;
}

/// Enqueues the computations of the optimizers, by group, that precede their exchange.
template <class T, class Stream, class Optimizer>
void begin_update(partitioned_unit<T> const& unit, Stream& compute,
                  std::span<Optimizer const> optimizers, arena& workspace,
                  step_info<accumulate_t<T>> const& info) {
  for_each_tensor_optimizer(
      unit.layout(), unit.position(), optimizers, workspace,
      [&](auto const& optimizer, auto const& segments, auto const& tensors, arena& memory) {
        std::vector<std::vector<std::span<accumulate_t<T>>>> states;
        optimizer.begin_update(compute, owned_ranges(unit, segments, states), tensors, memory,
                               info);
      });
}

/// Enqueues on `stream` the exchange of the optimizers, after begin_update.
template <class T, class Comm, class Stream, class Optimizer, class Requests>
void exchange_update(partitioned_unit<T> const& unit, update_groups<Comm> const& groups,
                     Stream& stream, std::span<Optimizer const> optimizers, arena& workspace,
                     Requests& requests) {
  for_each_tensor_optimizer(
      unit.layout(), unit.position(), optimizers, workspace,
      [&](auto const& optimizer, auto const&, auto const& tensors, arena& memory) {
        optimizer.exchange(stream, groups, tensors, memory, requests);
      });
}

/// Enqueues the update of the owned range of every trained segment by the optimizer of its group;
/// for optimizers of whole tensors after exchange_update, or after begin_update if there is no
/// exchange.
template <class T, class Stream, class Optimizer>
void update(partitioned_unit<T> const& unit, Stream& compute, std::span<Optimizer const> optimizers,
            arena& workspace, step_info<accumulate_t<T>> const& info) {
  arena::scope const temporaries(workspace);
  for (auto const& [group, segments] : trained_segments(unit.layout())) {
    auto const& optimizer = optimizers[group];
    std::vector<std::vector<std::span<accumulate_t<T>>>> states;
    auto const ranges = owned_ranges(unit, segments, states);
    unit_tensors<T> tensors;
    arena memory;
    if constexpr (tensor_optimizer<Optimizer>)
      if (takes_whole_tensors(optimizer)) {
        tensors = tensors_of(unit.layout(), unit.position(), segments);
        memory = workspace.cut(optimizer.template workspace_bytes<T>(tensors));
      }
    finish_update(optimizer, compute, ranges, tensors, memory, info);
  }
}

}  // namespace parallel::zero
