// hold_units: constructs a rank's part of a model's units in the same way for a run on a device and
// for its plan on the meta device, so that what is planned is what runs.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/train/setup/stages.hpp>
#include <parallel/train/step/step_plans.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/unit_set.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

/// Adds to `units` what a rank at `dense_place` holds of `model` by its `stages`, allocated on
/// `device` and bound to the model, buffers included. `optimizers` by group, `key_of` as in
/// optimizer_groups. Calls on_segment(segment) before a segment is allocated, and
/// on_unit(name, layer, parts, uses) after each of the model's units, in one order on all ranks.
template <class T, class Device, class Exchange, class Model, class Optimizers, class KeyOf,
          class OnSegment, class OnUnit>
void hold_units(zero::unit_set<T, Device, Exchange>& units, Device& device, Model& model,
                stages_of_rank const& stages, zero::unit_position dense_place,
                stepper_options const& options, Optimizers const& optimizers, KeyOf const& key_of,
                OnSegment const& on_segment, OnUnit const& on_unit) {
  using uses_type = std::vector<parameter_base<T>*>;
  std::vector<planned_unit> planned;
  auto const states = zero::state_counts::from_optimizers(optimizers);
  std::size_t workspace = 0;
  index staging = 0;
  bool const rounds = options.reduce_dtype == zero::reduce_dtype::bf16;
  require(!rounds || (std::is_same_v<accumulate_t<T>, float> &&
                      options.order == zero::reduction_order::by_rank),
          "stepper_options::reduce_dtype bf16: needs gradients in f32 and the order by_rank, but ",
          options.order == zero::reduction_order::by_rank
              ? concat("they are in ", to_string(dtype_of<accumulate_t<T>>))
              : std::string("the order is canonical_tree"),
          "; leave it out");
  auto const add = [&](std::string name, auto& layer, uses_type const& uses,
                       std::vector<part> parts, bool is_primary) {
    auto place = dense_place.among_experts(unit<T>::expert_ranks_of(layer));
    place.is_primary = is_primary;
    unit<T> layout(std::move(name), layer, place.data_ranks(), key_of);
    layout.add_uses(parts.size(), uses);
    if (parts.back() == static_cast<part>(model.num_blocks())) layout.end_at_exit();
    for (auto const& segment : layout.segments()) {
      require(0 <= segment.key.group && segment.key.group < std::ssize(optimizers), "unit ",
              layout.name(), ": a parameter is in optimizer group ", segment.key.group,
              ", but the number of groups is ", optimizers.size(), "; groups are counted from 0");
      on_segment(segment);
    }
    if (rounds && place.data_ranks() > 1) staging = std::max(staging, layout.trainable_size());
    workspace = std::max(workspace, zero::workspace_bytes(layout, place, std::span(optimizers)));
    planned.push_back(describe_unit(layout, parts, options, place));
    units.add({std::move(layout), options.level, place, states, device, options.order,
               options.optimizer_memory, options.reduce_every_microbatch},
              std::move(parts));
  };
  model.visit_units([&](std::string const& name, auto& layer, std::vector<part> const& parts,
                        uses_type const& uses) {
    with_held_part<T>(stages, name, layer, parts, uses, add);
    on_unit(name, layer, parts, uses);
  });
  unit_buffers const buffers(planned, choices_of(options));
  units.allocate_buffers(device, buffers.values.sizes(), buffers.gradients.sizes());
  units.allocate_workspace(device, workspace);
  if (staging > 0) units.allocate_staging(device, staging);
}

}  // namespace parallel::train
