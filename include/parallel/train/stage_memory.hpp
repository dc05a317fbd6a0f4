// stage_memory: the bytes of activations that a rank's plan needs, found by running each of its
// stages once on the meta device, and the arenas cut from one by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include <parallel/device/arena.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/pipeline/plan.hpp>
#include <parallel/train/stage.hpp>

namespace parallel::train {

/// Bytes of one microbatch at one stage.
struct stage_bytes {
  std::size_t slot = 0;     // what its forward pass keeps
  std::size_t scratch = 0;  // what its passes need on their way
};

/// What a step's plan allocates on one rank.
struct step_bytes {
  std::vector<stage_bytes> stages;  // by chunk
  std::size_t port = 0;             // an activation and its gradient
  std::size_t scratch = 0;          // the most of all stages

  /// Of the whole plan.
  [[nodiscard]] std::size_t total(pipeline::plan const& plan) const {
    std::size_t sum = scratch;
    for (std::size_t k = 0; k < stages.size(); ++k)
      sum += static_cast<std::size_t>(plan.chunks[k].slots) * stages[k].slot +
             static_cast<std::size_t>(plan.chunks[k].ports) * port;
    return sum;
  }
};

/// One microbatch of the shape of `batch` (its views may be null) at a stage; `apart`: the halves
/// of its backward pass. Its operations and traffic are counted on `compute`.
template <class Model>
[[nodiscard]] stage_bytes bytes_of_stage(Model const& model, stage_range range, bool apart,
                                         typename Model::microbatch const& batch, pass mode,
                                         meta::stream& compute) {
  arena slot, scratch;
  no_hooks hooks;
  stage<Model> const of(model, range);
  stage_activations<Model> kept;
  statistics<loss_type<typename Model::element>> sums;
  shape<2> const extents{model.rows(batch), model.width()};
  matrix_view<typename Model::element> const edge(nullptr, extents);
  auto keeping = context_of(model, compute, slot, mode, {}, batch);
  auto passing = context_of(model, compute, scratch, mode, {}, batch);
  if (mode == pass::inference) {
    of.evaluate(keeping, scratch, batch, edge, kept, sums, hooks);
  } else {
    of.forward(keeping, scratch, batch, edge, kept, sums, hooks);
    auto backward = context_of(model, compute, slot, mode, {}, batch);
    if (apart) {
      of.backward_input(backward, kept, edge, hooks);
      of.backward_weight(passing, batch, kept, hooks);
    } else {
      of.backward(passing, batch, kept, edge, hooks);
    }
  }
  return {slot.peak(), scratch.peak()};
}

template <class Model>
[[nodiscard]] stage_bytes bytes_of_stage(Model const& model, stage_range range, bool apart,
                                         typename Model::microbatch const& batch, pass mode) {
  meta::stream compute;
  return bytes_of_stage(model, range, apart, batch, mode, compute);
}

/// Whether a plan runs this kind of action at a stage.
[[nodiscard]] inline bool has(pipeline::plan const& plan, int stage, pipeline::action_kind kind) {
  return std::ranges::any_of(plan.steps, [&](pipeline::step const& s) {
    return s.kind == pipeline::step_kind::compute && s.at.stage == stage && s.computes == kind;
  });
}

/// What the plan needs for these microbatches: the most that any of them needs, which need not be
/// the largest. `ranges`: of the plan's chunks. Those without rows need nothing.
template <class Model>
[[nodiscard]] step_bytes bytes_of_step(Model const& model, pipeline::plan const& plan,
                                       std::vector<stage_range> const& ranges,
                                       std::span<typename Model::microbatch const> batches,
                                       pass mode) {
  step_bytes out;
  out.stages.resize(ranges.size());
  std::set<index> sizes = {0};
  for (auto const& batch : batches) {
    if (!sizes.insert(model.rows(batch)).second) continue;
    for (std::size_t k = 0; k < ranges.size(); ++k)
      for (bool const apart : {false, true}) {
        if (apart && !has(plan, plan.chunks[k].stage, pipeline::action_kind::backward_input))
          continue;
        auto const bytes = bytes_of_stage(model, ranges[k], apart, batch, mode);
        out.stages[k].slot = std::max(out.stages[k].slot, bytes.slot);
        out.scratch = std::max(out.scratch, bytes.scratch);
      }
    arena measure;
    for (int activation = 0; activation < (mode == pass::training ? 2 : 1); ++activation)
      static_cast<void>(
          measure.allocate<typename Model::element, 2>({model.rows(batch), model.width()}));
    out.port = std::max(out.port, measure.peak());
  }
  return out;
}

}  // namespace parallel::train
