// update: one optimizer step over what a rank owns of a unit.
#pragma once

#include <span>
#include <vector>

#include <parallel/optim/whole_tensors.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::zero {

/// A segment's tensors as optimizers see them, in the order in which they lie.
template <class T>
[[nodiscard]] std::vector<segment_tensor> tensors_of(segment<T> const& segment) {
  std::vector<segment_tensor> out;
  for (auto const& [parameter, offset] : segment.parameters)
    out.push_back({parameter->name, parameter->extents, parameter->tensor_extents(), offset});
  return out;
}

/// The memory that the optimizers, by group, need to update a unit at `place`, which all units can
/// share; 0 for element-wise ones. Throws `error` where one cannot train a tensor.
template <class T, class Optimizer>
[[nodiscard]] std::size_t workspace_bytes(unit<T> const& layout, unit_place const& place,
                                          std::span<Optimizer const> optimizers) {
  std::size_t most = 0;
  for (auto const& segment : layout.segments()) {
    if (!segment.key.trainable) continue;
    auto const tensors = tensors_of(segment);
    auto const owned = place.owned(segment.size);
    most = std::max(
        most, parallel::workspace_bytes<T>(optimizers[static_cast<std::size_t>(segment.key.group)],
                                           {tensors, segment.size, owned.begin, owned.end}));
  }
  return most;
}

/// Updates the owned range of every segment that is trained, by the optimizer of its group.
/// `exchange`: a shard_exchange along the axis that divides the unit; for element-wise optimizers
/// it may be empty.
template <class T, class Stream, class Optimizer, class Exchange = shard_exchange<void, void>>
void update(partitioned_unit<T> const& unit, Stream& compute, std::span<Optimizer const> optimizers,
            step_info<accumulate_t<T>> const& info, Exchange const& exchange = {}) {
  using summed = typename partitioned_unit<T>::summed_gradient;
  for (std::size_t s = 0; s < unit.segments().size(); ++s) {
    if (!unit.is_trainable(s)) continue;
    auto const& memory = unit.segments()[s];
    auto const& segment = unit.layout().segments()[s];
    std::vector<std::span<accumulate_t<T>>> states;
    for (auto const& state : memory.states) states.push_back(state.span());
    auto const tensors = tensors_of(segment);
    update_segment(optimizers[static_cast<std::size_t>(segment.key.group)], compute,
                   update_ranges<T, summed>{unit.owned_values(s), memory.master.span(), states,
                                            summed{unit.owned_gradients(s)}},
                   {tensors, segment.size, memory.owned.begin, memory.owned.end}, exchange, info);
  }
}

}  // namespace parallel::zero
