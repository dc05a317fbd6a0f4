// stage_program: a step's microbatches as a program of the pipeline executor, for any model.
//
// It lasts for one step. Slots, ports and scratch memory are cut from one arena as the plan says;
// every pass runs where its passage lives, with the strategy's hooks around its parts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/device/annotate.hpp>
#include <parallel/pipeline/execute.hpp>
#include <parallel/train/stage_memory.hpp>

namespace parallel::train {

/// The microbatches of one rank and their places in the global batch. Those without rows come last.
template <class Model>
struct step_batches {
  std::span<typename Model::microbatch const> batches;
  std::span<index const> first_sequences;
  position where;
  pass mode = pass::training;
};

/// `Hooks` is made for a step of the plan by make_hooks(step).
template <class Model, class Stream, class MakeHooks>
class stage_program {
 public:
  using element = typename Model::element;
  using sums_type = statistics<loss_type<element>>;

  /// Everything is borrowed. `sums`: one for each microbatch, or for the empty one of a rank that
  /// has none; `ranges`: of the plan's chunks; `bytes`: what bytes_of_step says; `weights`: the
  /// stream of weight gradients that run beside, or null; `fresh`: the first microbatch's gradients
  /// replace what is there, or those of every one.
  stage_program(Model const& model, pipeline::plan const& plan,
                std::vector<stage_range> const& ranges, step_bytes const& bytes, Stream& compute,
                Stream* weights, arena& memory, step_batches<Model> batches,
                std::span<sums_type> sums, bool every_is_fresh, MakeHooks make_hooks)
      : model_(model),
        compute_(compute),
        weights_(weights),
        scratch_(memory.cut(bytes.scratch)),
        other_(memory.cut(bytes.other)),
        batches_(batches),
        sums_(sums),
        every_is_fresh_(every_is_fresh),
        make_hooks_(make_hooks),
        ranks_(plan.ranks) {
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      auto& c = chunks_.emplace_back(stage<Model>(model, ranges[k]));
      for (int i = 0; i < plan.chunks[k].slots; ++i)
        c.slots.push_back({memory.cut(bytes.stages[k].slot), {}});
      for (int i = 0; i < plan.chunks[k].ports; ++i) c.ports.push_back(memory.cut(bytes.port));
    }
  }

  [[nodiscard]] Stream& compute() { return compute_; }
  [[nodiscard]] bool is_empty(int microbatch) const {
    return static_cast<std::size_t>(microbatch) >= batches_.batches.size() ||
           model_.rows(batch(microbatch)) == 0;
  }

  [[nodiscard]] std::span<element> input(pipeline::passage const& at) { return edge(at, 0).span(); }
  [[nodiscard]] std::span<element> input_gradient(pipeline::passage const& at) {
    return edge(at, 1).span();
  }
  [[nodiscard]] std::span<element> output(pipeline::passage const& at) {
    return slot(at).kept.output.span();
  }
  [[nodiscard]] std::span<element> output_gradient(pipeline::passage const& at) {
    return slot(at).kept.gradient.span();
  }

  void run(pipeline::step const& s) {
    using enum pipeline::action_kind;
    auto const& of = chunk_of(s.at).passes;
    auto hooks = make_hooks_(s);
    [[maybe_unused]] auto const named = annotate(compute_, [&] {
      return concat(pipeline::name_of(s.computes), " of microbatch ", s.at.microbatch, " at stage ",
                    s.at.stage);
    });
    if (is_empty(s.at.microbatch)) return pass_through(s, of.range(), hooks);
    auto& here = slot(s.at);
    auto const& b = batch(s.at.microbatch);
    if (s.computes == forward) here.memory.release(0);
    bool const keeps = s.computes == forward || s.computes == backward_input;
    auto c = context_of(model_, compute_, keeps ? here.memory : scratch_, batches_.mode,
                        where(s.at.microbatch), b);
    c.fresh_gradients = s.first || every_is_fresh_;
    bool const entry = of.range().entry;
    bool const returns = !entry && s.computes != forward;  // a port of evaluation has no gradient
    auto const d_input = returns ? edge(s.at, 1) : matrix_view<element>{};
    switch (s.computes) {
      case forward: {
        auto const x = entry ? matrix_view<element>{} : edge(s.at, 0);
        auto& sums = sums_[static_cast<std::size_t>(s.at.microbatch)];
        if (batches_.mode == pass::training)
          return of.forward(c, scratch_, b, x, here.kept, sums, hooks);
        return of.evaluate(c, scratch_, b, x, here.kept, sums, hooks);
      }
      case backward:
        if (weights_ != nullptr)
          return of.backward(c, *weights_, other_, b, here.kept, d_input, hooks);
        return of.backward(c, b, here.kept, d_input, hooks);
      case backward_input: return of.backward_input(c, here.kept, d_input, hooks);
      case backward_weight: return of.backward_weight(c, b, here.kept, hooks);
    }
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
    std::vector<arena> ports;
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
  [[nodiscard]] chunk& chunk_of(pipeline::passage const& at) {
    return chunks_[static_cast<std::size_t>(at.stage / ranks_)];
  }
  [[nodiscard]] slot_memory& slot(pipeline::passage const& at) {
    return chunk_of(at).slots[static_cast<std::size_t>(at.slot)];
  }
  /// The input (0) or its gradient (1) in a port.
  [[nodiscard]] matrix_view<element> edge(pipeline::passage const& at, int which) {
    auto& port = chunk_of(at).ports[static_cast<std::size_t>(at.port)];
    port.release(0);
    shape<2> const extents{model_.rows(batch(at.microbatch)), model_.width()};
    auto const first = port.template allocate<element, 2>(extents);
    return which == 0 ? first : port.template allocate<element, 2>(extents);
  }

  /// The hooks of a microbatch without rows, in the order of one that has some: collectives of
  /// other axes hang on them.
  template <class Hooks>
  void pass_through(pipeline::step const& s, stage_range const& range, Hooks& hooks) {
    using enum pipeline::action_kind;
    if (s.computes == forward) {
      for (part p = range.entry ? enter : range.begin; p < range.end; ++p) {
        hooks.before_forward(p);
        hooks.after_forward(p);
      }
      if (!range.exit) return;
      if (batches_.mode == pass::training) {
        hooks.before_backward(range.end);
        hooks.after_backward(range.end);
      } else {
        hooks.before_forward(range.end);
        hooks.after_forward(range.end);
      }
      return;
    }
    auto const inputs = [&](part p) {
      hooks.before_backward_input(p);
      hooks.after_backward_input(p);
    };
    auto const weights = [&](part p) {
      hooks.before_backward_weight(p);
      hooks.after_backward_weight(p);
    };
    bool const beside = s.computes == backward && weights_ != nullptr;
    for (part p = range.end; p-- > range.begin;) {
      if (s.computes == backward_weight) {
        weights(p);
      } else if (s.computes == backward_input) {
        inputs(p);
      } else if (beside) {
        inputs(p);
        if (p + 1 < range.end) hooks.after_backward_weight(p + 1);
        hooks.before_backward_weight(p);
      } else {
        hooks.before_backward(p);
        hooks.after_backward(p);
      }
    }
    if (beside && range.begin < range.end) hooks.after_backward_weight(range.begin);
    if (range.entry && s.computes != backward_input) weights(enter);
  }

  Model const& model_;
  Stream& compute_;
  Stream* weights_;
  arena scratch_;
  arena other_;
  step_batches<Model> batches_;
  std::span<sums_type> sums_;
  bool every_is_fresh_;
  MakeHooks make_hooks_;
  int ranks_;
  std::vector<chunk> chunks_;
};

}  // namespace parallel::train
