// step_passes: the passes of a step's microbatches on one rank, where their activations live.
//
// It lasts for one step. Slots, boundary buffers and scratch memory are cut from one arena as the
// plan says.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/train/stage_memory.hpp>
#include <parallel/train/step_plan.hpp>

namespace parallel::train {

/// The microbatches of one rank and their places in the global batch. Those without rows come last.
template <class Model>
struct step_batches {
  std::span<typename Model::microbatch const> batches;
  std::span<index const> first_sequences;
  position where;
  pass mode = pass::training;
};

/// Throws unless every microbatch of a step has a place.
template <class Model>
void require_places(step_batches<Model> const& of) {
  require(of.batches.size() == of.first_sequences.size(), "a step of ", of.batches.size(),
          " microbatches is given ", of.first_sequences.size(),
          " first_sequences; give the number that the first sequence of each has in the global "
          "batch, and any of those without rows");
}

template <class Model>
class step_passes {
 public:
  using element = typename Model::element;
  using sums_type = statistics<loss_type<element>>;

  /// Everything is borrowed. `sums`: one for each microbatch, or for the empty one of a rank that
  /// has none; `bytes`: what bytes_of_step says; `fresh`: the first microbatch's gradients replace
  /// what is there, or those of every one.
  step_passes(Model const& model, step_plan const& plan, step_bytes const& bytes, arena& memory,
              step_batches<Model> batches, std::span<sums_type> sums, bool every_is_fresh)
      : model_(model),
        plan_(plan),
        scratch_(memory.cut(bytes.scratch)),
        other_(memory.cut(bytes.other)),
        shared_(scratch_, &other_),
        batches_(batches),
        sums_(sums),
        every_is_fresh_(every_is_fresh) {
    for (std::size_t k = 0; k < plan.stages.size(); ++k) {
      auto& c = chunks_.emplace_back(stage<Model>(model, plan.stages[k]));
      for (int i = 0; i < plan.memory[k].slots; ++i)
        c.slots.push_back({memory.cut(bytes.stages[k].slot), {}});
      for (int i = 0; i < plan.memory[k].boundaries; ++i)
        c.boundaries.push_back(memory.cut(bytes.boundary));
    }
  }
  step_passes(step_passes const&) = delete;
  step_passes& operator=(step_passes const&) = delete;

  /// Whether nobody of this pipeline has a sequence for a microbatch.
  [[nodiscard]] bool is_empty(int microbatch) const {
    return static_cast<std::size_t>(microbatch) >= batches_.batches.size() ||
           model_.rows(batch(microbatch)) == 0;
  }

  /// What lies at a stage's edges.
  [[nodiscard]] std::span<element> input(pipeline::microbatch_task const& at) {
    return edge(at, 0).span();
  }
  [[nodiscard]] std::span<element> input_gradient(pipeline::microbatch_task const& at) {
    return edge(at, 1).span();
  }
  [[nodiscard]] std::span<element> output(pipeline::microbatch_task const& at) {
    return slot(at).kept.output.span();
  }
  [[nodiscard]] std::span<element> output_gradient(pipeline::microbatch_task const& at) {
    return slot(at).kept.gradient.span();
  }

  /// Enqueues a pass, which is not of an empty microbatch.
  template <class Stream>
  void run(action const& a, Stream& on) {
    auto& passes = chunk_of(a.at).passes;
    auto const& range = passes.range();
    auto& here = slot(a.at);
    auto const& b = batch(a.at.microbatch);
    bool const goes_forward = a.does == pass_kind::forward || a.does == pass_kind::forward_backward;
    if (goes_forward && a.of == range.front()) here.memory.release(0);
    auto c = context_of(model_, on, here.memory, batches_.mode, where(a.at.microbatch), b);
    c.overwrite_gradients = a.first || every_is_fresh_;
    stage_edges<Model> at;
    if (!range.entry) {  // a boundary buffer of evaluation has no gradient
      at.input = edge(a.at, 0);
      if (!goes_forward) at.input_gradient = edge(a.at, 1);
    }
    passes.run({a.does, a.of, a.beside}, c, shared_, b, at, here.kept,
               sums_[static_cast<std::size_t>(a.at.microbatch)]);
  }

 private:
  struct slot_memory {
    arena memory;
    stage_activations<Model> kept;
  };
  struct chunk {
    explicit chunk(stage<Model> of) : passes(of) {}
    stage<Model> passes;
    std::vector<slot_memory> slots;
    std::vector<arena> boundaries;
  };

  [[nodiscard]] typename Model::microbatch const& batch(int m) const {
    return batches_.batches[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] position where(int m) const {
    auto out = batches_.where;
    if (!batches_.first_sequences.empty())
      out.first_sequence =
          static_cast<std::uint64_t>(batches_.first_sequences[static_cast<std::size_t>(m)]);
    return out;
  }
  [[nodiscard]] chunk& chunk_of(pipeline::microbatch_task const& at) {
    return chunks_[plan_.chunk_of(at)];
  }
  [[nodiscard]] slot_memory& slot(pipeline::microbatch_task const& at) {
    return chunk_of(at).slots[static_cast<std::size_t>(at.slot)];
  }
  /// The input (0) or its gradient (1) in a boundary buffer.
  [[nodiscard]] matrix_view<element> edge(pipeline::microbatch_task const& at, int which) {
    auto& boundary = chunk_of(at).boundaries[static_cast<std::size_t>(at.boundary)];
    boundary.release(0);
    shape<2> const extents{model_.rows(batch(at.microbatch)), model_.width()};
    auto const first = boundary.template allocate<element, 2>(extents);
    return which == 0 ? first : boundary.template allocate<element, 2>(extents);
  }

  Model const& model_;
  step_plan const& plan_;
  arena scratch_;
  arena other_;
  pass_memory<Model> shared_;
  step_batches<Model> batches_;
  std::span<sums_type> sums_;
  bool every_is_fresh_;
  std::vector<chunk> chunks_;
};

}  // namespace parallel::train
