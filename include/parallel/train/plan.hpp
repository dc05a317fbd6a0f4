// plan: the memory and the arithmetic of a training step, found by running it on the meta device.
//
// The plan is exact by construction: it runs the same code as a real step, so the arena that it
// measures is the arena that the step needs. It costs microseconds and no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include <parallel/device/arena.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/setup/hold_units.hpp>
#include <parallel/train/setup/stage_memory.hpp>
#include <parallel/train/setup/stages.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/train/trainable.hpp>
#include <parallel/zero/unit_set.hpp>

namespace parallel::train {

/// A model whose passes run on the meta device; for another one, the compiler says what it lacks.
template <class M>
concept plannable = checked_model<M, meta::stream>;

/// Bytes per rank.
struct memory_plan {
  std::size_t values = 0;     ///< parameters as the model reads them
  std::size_t gradients = 0;  ///< one buffer per use
  std::size_t trees = 0;      ///< for the canonical order: gradients of microbatches
  std::size_t master = 0;     ///< fp32 master weights of what the rank owns (0 when T is fp32)
  std::size_t optimizer = 0;  ///< optimizer states of what the rank owns
  std::size_t offloaded = 0;  ///< of both, moved to the host's memory: not in the total
  /// Bytes of a checkpoint on the rank that saves most, not in the total: parameters, optimizer
  /// states.
  std::size_t saved_weights = 0;
  std::size_t saved_states = 0;
  std::size_t buffers = 0;       ///< for values, gradients and updates, which units share in turn
  std::size_t activations = 0;   ///< the arena
  operation_scratch scratch;     ///< for the streams of a GPU; none on a device that needs none
  std::uint64_t operations = 0;  ///< floating-point operations of one microbatch, both passes

  [[nodiscard]] std::size_t total() const {
    return values + gradients + trees + master + optimizer + buffers + activations +
           scratch.total();
  }
};

/// Floating-point operations of one training microbatch in some stages, by the name of the function
/// that implements each operation.
template <plannable Model>
[[nodiscard]] std::map<std::string_view, std::uint64_t> count_operations(
    Model const& model, microbatch_of<Model> const& batch, std::vector<stage_range> const& ranges) {
  meta::stream stream;
  for (auto const& range : ranges)
    static_cast<void>(
        bytes_of_stage(model, range, backward_halves::together, batch, pass::training, stream));
  return stream.operations_by_name();
}

/// Floating-point operations of the whole model, by name.
template <plannable Model>
[[nodiscard]] std::map<std::string_view, std::uint64_t> count_operations(
    Model const& model, microbatch_of<Model> const& batch) {
  return count_operations(model, batch, {whole_model(model)});
}

/// Bytes of activations of a step that runs the whole model as one stage, and the operations of one
/// training microbatch (its views may be null).
template <class Model>
[[nodiscard]] memory_plan plan_microbatch(Model const& model, microbatch_of<Model> const& batch) {
  memory_plan plan;
  if constexpr (plannable<Model>) {
    auto const bytes =
        bytes_of_stage(model, whole_model(model), backward_halves::together, batch, pass::training);
    plan.activations = bytes.slot + bytes.scratch;
    for (auto const& [name, count] : count_operations(model, batch)) plan.operations += count;
  }
  return plan;
}

/// Bytes of activations of a forward pass without a backward pass.
template <class Model>
[[nodiscard]] std::size_t plan_evaluation(Model const& model, microbatch_of<Model> const& batch) {
  if constexpr (plannable<Model>) {
    auto const bytes = bytes_of_stage(model, whole_model(model), backward_halves::together, batch,
                                      pass::inference);
    return bytes.slot + bytes.scratch;
  } else {
    return 0;
  }
}

/// The memory that the passes of a step need besides units.
struct pass_memory_plan {
  std::size_t activations = 0;
  operation_scratch scratch;  ///< on a GPU

  /// Makes this large enough for `other` too.
  void cover(pass_memory_plan const& other) {
    activations = std::max(activations, other.activations);
    scratch.cover(other.scratch);
  }
};

/// Throws when the memory of a step without microbatches is asked for.
inline void require_microbatches_to_plan(std::size_t count) {
  require(count > 0,
          "memory is planned for no microbatches; give those of a step (their views may ",
          "be null), also on a rank without sequences, where they are empty");
}

/// Bytes that a step, or with pass::inference an evaluation, of `count` microbatches needs on a
/// rank with these stages, when each is like one of `batches` (whose views may be null). `streams`:
/// the streams of the device that it will run on.
template <plannable Model>
[[nodiscard]] pass_memory_plan plan_passes(Model const& model, stages_of_rank& stages,
                                           std::size_t count,
                                           std::span<microbatch_of<Model> const> batches, pass mode,
                                           meta::stream_options const& streams = {}) {
  require_microbatches_to_plan(count);
  auto const& plan = stages.plan_of(static_cast<int>(count), mode);
  auto const bytes = bytes_of_step(model, plan, stages, batches, mode, streams);
  return {bytes.total(plan), bytes.operations};
}

/// The activations of plan_passes.
template <plannable Model>
[[nodiscard]] std::size_t plan_activations(Model const& model, stages_of_rank& stages,
                                           std::size_t count,
                                           std::span<microbatch_of<Model> const> batches,
                                           pass mode) {
  return plan_passes(model, stages, count, batches, mode).activations;
}

/// The memory that a rank at `place` with these stages and options holds besides activations.
/// `leaves`: the microbatches of a step that have sequences, which trees of the canonical order
/// hold; 0: the memory before the first step. Afterwards the model is bound to nothing.
template <class Optimizer, plannable Model>
[[nodiscard]] memory_plan plan_units(Model& model, optimizer_groups<Optimizer> const& groups,
                                     stages_of_rank const& stages, zero::unit_position place,
                                     stepper_options const& options, std::size_t leaves = 0) {
  using element = typename Model::element;
  zero::unit_set<element, meta::device, meta::stream> units;
  meta::device device;
  hold_units(
      units, device, model, stages, place, options, groups.optimizers, groups.key_of,
      [](auto const&) {}, [](auto const&...) {});
  memory_plan plan;
  plan.buffers = units.value_buffer_bytes() + units.gradient_buffer_bytes() +
                 units.workspace_bytes() + units.staging_bytes();
  plan.trees = units.tree_bytes(leaves);
  for (auto const& entry : units.units())
    for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) {
      auto const& m = entry.memory.segments()[s];
      auto const bytes = [](auto const& b) { return b.size() * sizeof(*b.data()); };
      auto const primary = static_cast<std::size_t>(entry.memory.primary_range(s).size());
      bool const trainable = entry.memory.is_trainable(s);
      plan.saved_weights += primary * (trainable ? sizeof(accumulate_t<element>) : sizeof(element));
      if (trainable) plan.saved_states += primary * sizeof(accumulate_t<element>) * m.states.size();
      plan.values += bytes(m.values);
      for (auto const& gradient : m.gradients) plan.gradients += bytes(gradient);
      if constexpr (!std::is_same_v<element, accumulate_t<element>>) plan.master += bytes(m.master);
      for (auto const& state : m.states) plan.optimizer += bytes(state);
    }
  if (options.optimizer_memory == zero::optimizer_memory::host) {
    plan.offloaded = plan.master + plan.optimizer;
    plan.master = plan.optimizer = 0;
  }
  return plan;
}

/// The memory that a rank with all stages holds besides activations.
template <class Optimizer, class Model>
[[nodiscard]] memory_plan plan_units(Model& model, optimizer_groups<Optimizer> const& groups,
                                     zero::unit_position place, stepper_options const& options) {
  if constexpr (plannable<Model>) {
    stages_of_rank const all_stages({}, 0, 1, model.num_blocks());
    return plan_units(model, groups, all_stages, place, options);
  } else {
    return {};
  }
}

}  // namespace parallel::train
