// stage_memory: the bytes of activations that a rank's plan needs, and those of its operations'
// scratch on a GPU, found by running each stage of the rank once on the meta device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/device/arena.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/device/meta/host_access_watch.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/pipeline/plan.hpp>
#include <parallel/train/setup/stage.hpp>
#include <parallel/train/setup/stages.hpp>

namespace parallel::train {

/// Bytes of scratch that operations need on a GPU, where each stream has its own.
struct operation_scratch {
  std::size_t compute = 0;
  std::size_t weights = 0;  ///< for weight gradients that run on a separate stream

  [[nodiscard]] std::size_t total() const { return compute + weights; }
  /// Makes this large enough for `other` too.
  void cover(operation_scratch const& other) {
    compute = std::max(compute, other.compute);
    weights = std::max(weights, other.weights);
  }
};

/// Bytes of one microbatch at one stage.
struct stage_bytes {
  std::size_t slot = 0;            ///< what its forward pass keeps
  std::size_t scratch = 0;         ///< temporaries of its passes
  std::size_t second_scratch = 0;  ///< for weight gradients that run on a separate stream
  operation_scratch operations = {};
};

/// The bytes that a step's plan allocates on one rank.
struct step_bytes {
  std::vector<stage_bytes> stages;  ///< by chunk
  std::size_t boundary = 0;         ///< an activation and its gradient
  std::size_t scratch = 0;          ///< the maximum over all stages
  std::size_t second_scratch = 0;   ///< the maximum over all stages
  operation_scratch operations = {};

  /// Bytes of the whole plan, without operations' scratch, which belongs to the streams.
  [[nodiscard]] std::size_t total(pipeline::plan const& plan) const {
    std::size_t sum = scratch + second_scratch;
    for (std::size_t k = 0; k < stages.size(); ++k)
      sum += static_cast<std::size_t>(plan.chunks[k].slots) * stages[k].slot +
             static_cast<std::size_t>(plan.chunks[k].boundaries) * boundary;
    return sum;
  }
};

/// The order in which the two halves of a backward pass run: the gradient of the input, and the
/// gradients of the weights.
enum class backward_halves : std::uint8_t {
  together,    // block by block, one after the other
  overlapped,  // block by block, on two streams
  apart        // each for the whole stage, when the schedule says
};

/// The bytes of one microbatch of the shape of `batch` (its views may be null) at a stage. Its
/// operations and traffic are counted on `compute`.
template <class Model>
[[nodiscard]] stage_bytes bytes_of_stage(Model const& model, stage_range range,
                                         backward_halves halves,
                                         typename Model::microbatch const& batch, pass mode,
                                         meta::stream& compute) {
  using element = typename Model::element;
  using enum pipeline::action_kind;
  arena slot, scratch, second;
  stage<Model> const measured(model, range);
  stage_activations<Model> saved;
  pass_memory<Model> shared(scratch, &second);
  statistics<loss_type<element>> sums;
  matrix_view<element> const edge(nullptr, {model.rows(batch), model.width()});
  auto const c = context_of(model, compute, slot, mode, {}, batch);
  operation_scratch operations;
  meta::host_access_watch const watch;
  auto const run = [&](pipeline::action_kind computes) {
    for (auto const& pass :
         passes_of(range, computes, mode, halves == backward_halves::overlapped)) {
      try {
        measured.run(pass, c, shared, batch, {edge, edge}, saved, sums);
      } catch (error const& problem) {
        std::string const part_name = name_of_part(pass.model_part, model.num_blocks());
        std::string const text = problem.what();
        if (text.starts_with(part_name)) throw;
        fail(part_name, ", ", to_string(pass.kind), ": ", text);
      }
      bool const runs_aside = pass.is_overlapped && pass.kind == pass_kind::backward_weight;
      auto& peak = runs_aside ? operations.weights : operations.compute;
      peak = std::max(peak, compute.take_scratch());
    }
  };
  run(forward);
  if (mode == pass::training && halves == backward_halves::apart) {
    run(backward_input);
    run(backward_weight);
  } else if (mode == pass::training) {
    run(backward);
  }
  return {slot.peak(), scratch.peak(), second.peak(), operations};
}

template <class Model>
[[nodiscard]] stage_bytes bytes_of_stage(Model const& model, stage_range range,
                                         backward_halves halves,
                                         typename Model::microbatch const& batch, pass mode,
                                         meta::stream_options const& streams = {}) {
  meta::stream compute(streams);
  return bytes_of_stage(model, range, halves, batch, mode, compute);
}

/// Whether the plan has a computation of this kind at this stage.
[[nodiscard]] inline bool runs_action(pipeline::plan const& plan, int stage,
                                      pipeline::action_kind kind) {
  return std::ranges::any_of(plan.steps, [&](pipeline::step const& s) {
    return s.kind == pipeline::step_kind::compute && s.task.stage == stage && s.computes == kind;
  });
}

/// The bytes that the plan needs for these microbatches: the maximum over them, which the largest
/// one need not reach. `stages`: those of the plan's rank; `streams`: those that the plan will run
/// on. Microbatches without rows need nothing.
template <class Model>
[[nodiscard]] step_bytes bytes_of_step(Model const& model, pipeline::plan const& plan,
                                       stages_of_rank const& stages,
                                       std::span<typename Model::microbatch const> batches,
                                       pass mode, meta::stream_options const& streams = {}) {
  using enum backward_halves;
  auto const& ranges = stages.ranges();
  step_bytes step;
  step.stages.resize(ranges.size());
  std::set<std::pair<index, index>> sizes;
  for (auto const& batch : batches) {
    if (model.rows(batch) == 0 || !sizes.insert(extent_of(model, batch)).second) continue;
    for (std::size_t k = 0; k < ranges.size(); ++k)
      for (auto const halves : {stages.overlap_weight_gradients() ? overlapped : together, apart}) {
        if (halves == apart &&
            !runs_action(plan, plan.chunks[k].stage, pipeline::action_kind::backward_input))
          continue;
        auto const bytes = bytes_of_stage(model, ranges[k], halves, batch, mode, streams);
        step.operations.cover(bytes.operations);
        step.stages[k].slot = std::max(step.stages[k].slot, bytes.slot);
        step.scratch = std::max(step.scratch, bytes.scratch);
        step.second_scratch = std::max(step.second_scratch, bytes.second_scratch);
      }
    arena measure;
    for (int activation = 0; activation < (mode == pass::training ? 2 : 1); ++activation)
      static_cast<void>(
          measure.allocate<typename Model::element, 2>({model.rows(batch), model.width()}));
    step.boundary = std::max(step.boundary, measure.peak());
  }
  return step;
}

}  // namespace parallel::train
