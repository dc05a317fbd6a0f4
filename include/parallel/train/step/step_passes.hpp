// step_passes: the passes of a step's microbatches on one rank, and the memory of their
// activations.
//
// It lasts for one step. Slots, boundary buffers and scratch memory are cut from one arena as the
// plan says.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/train/setup/stage_memory.hpp>
#include <parallel/train/step/step_plan.hpp>
#include <parallel/train/step/step_request.hpp>

namespace parallel::train {

template <class Model>
class step_passes {
 public:
  using element = typename Model::element;
  using sums_type = statistics<loss_type<element>>;
  using request_type = step_request<typename Model::microbatch>;

  /// Everything is borrowed. `sums`: one for each microbatch, or for the empty one of a rank that
  /// has none; `bytes`: what bytes_of_step says; `record`: context::record.
  step_passes(Model const& model, step_plan const& plan, step_bytes const& bytes, arena& memory,
              request_type const& request, pass mode, std::span<sums_type> sums,
              std::span<double> record = {})
      : model_(model),
        plan_(plan),
        scratch_(memory.cut(bytes.scratch)),
        second_scratch_(memory.cut(bytes.second_scratch)),
        shared_(scratch_, &second_scratch_),
        request_(request),
        mode_(mode),
        sums_(sums),
        record_(record) {
    for (std::size_t k = 0; k < plan.stages.size(); ++k) {
      auto& c = chunks_.emplace_back(stage<Model>(model, plan.stages[k]));
      for (int i = 0; i < plan.memory[k].slots; ++i)
        c.slots.push_back({memory.cut(bytes.stages[k].slot), {}});
      for (int i = 0; i < plan.memory[k].boundaries; ++i)
        c.boundaries.push_back(memory.cut(bytes.boundary));
    }
  }
  step_passes(step_passes&&) = delete;

  /// Whether no rank of this pipeline has a sequence for a microbatch.
  [[nodiscard]] bool is_empty(int microbatch) const {
    return static_cast<std::size_t>(microbatch) >= request_.microbatches.size() ||
           model_.rows(batch(microbatch)) == 0;
  }

  /// The activations at the edges of a task's stage.
  [[nodiscard]] std::span<element> input(pipeline::microbatch_task const& task) {
    return edge(task, 0).span();
  }
  [[nodiscard]] std::span<element> input_gradient(pipeline::microbatch_task const& task) {
    return edge(task, 1).span();
  }
  [[nodiscard]] std::span<element> output(pipeline::microbatch_task const& task) {
    return slot(task).activations.output.span();
  }
  [[nodiscard]] std::span<element> output_gradient(pipeline::microbatch_task const& task) {
    return slot(task).activations.gradient.span();
  }

  [[nodiscard]] request_type const& request() const { return request_; }

  /// Enqueues a pass, which must not be of an empty microbatch.
  template <class Stream>
  void run(action const& a, Stream& compute) {
    auto& passes = chunk_of(a.task).passes;
    auto const& range = passes.range();
    auto& own_slot = slot(a.task);
    auto const& b = batch(a.task.microbatch);
    bool const goes_forward = a.pass == pass_kind::forward || a.pass == pass_kind::forward_backward;
    if (goes_forward && a.model_part == range.front()) own_slot.memory.release(0);
    auto c = context_of(model_, compute, own_slot.memory, mode_, position_of(a.task.microbatch), b);
    c.overwrite_gradients = a.first;
    c.record = record_;
    stage_edges<Model> boundary;
    if (!range.entry) {  // a boundary buffer of an evaluation has no gradient
      boundary.input = edge(a.task, 0);
      if (!goes_forward) boundary.input_gradient = edge(a.task, 1);
    }
    passes.run({a.pass, a.model_part, a.is_overlapped}, c, shared_, b, boundary,
               own_slot.activations, sums_[static_cast<std::size_t>(a.task.microbatch)]);
  }

 protected:
  [[nodiscard]] Model const& model() const { return model_; }

 private:
  struct slot_memory {
    arena memory;
    stage_activations<Model> activations;
  };
  struct chunk {
    explicit chunk(stage<Model> passes_of_stage) : passes(passes_of_stage) {}
    stage<Model> passes;
    std::vector<slot_memory> slots;
    std::vector<arena> boundaries;
  };

  [[nodiscard]] typename Model::microbatch const& batch(int m) const {
    return request_.microbatches[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] position position_of(int m) const {
    auto out = request_.position;
    if (!request_.first_sequences.empty())
      out.first_sequence =
          static_cast<std::uint64_t>(request_.first_sequences[static_cast<std::size_t>(m)]);
    return out;
  }
  [[nodiscard]] chunk& chunk_of(pipeline::microbatch_task const& task) {
    return chunks_[plan_.chunk_of(task)];
  }
  [[nodiscard]] slot_memory& slot(pipeline::microbatch_task const& task) {
    return chunk_of(task).slots[static_cast<std::size_t>(task.slot)];
  }
  /// The input (0) or its gradient (1) in a task's boundary buffer.
  [[nodiscard]] matrix_view<element> edge(pipeline::microbatch_task const& task, int part_number) {
    auto& boundary = chunk_of(task).boundaries[static_cast<std::size_t>(task.boundary)];
    boundary.release(0);
    shape<2> const extents{model_.rows(batch(task.microbatch)), model_.width()};
    auto const first = boundary.template allocate<element, 2>(extents);
    return part_number == 0 ? first : boundary.template allocate<element, 2>(extents);
  }

  Model const& model_;
  step_plan const& plan_;
  arena scratch_;
  arena second_scratch_;
  pass_memory<Model> shared_;
  request_type request_;
  pass mode_;
  std::span<sums_type> sums_;
  std::span<double> record_;
  std::vector<chunk> chunks_;
};

}  // namespace parallel::train
