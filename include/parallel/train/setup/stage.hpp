// stage: the passes of one microbatch through each part (parts.hpp) of a range of a model's blocks,
// with the model's entry and exit where the range has them; a whole model is the stage of all
// blocks.
//
// The stage decides how long every activation lives. What a forward pass keeps is in one arena, the
// slot, until the weight gradients have been computed; temporaries of a pass are in another, the
// scratch arena, which all passes of a rank share. When the two halves of a backward pass run
// apart, what the second half needs of the first is in the slot too.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/parts.hpp>
#include <parallel/train/setup/declarations.hpp>

namespace parallel::train {

/// The range of all parts of a model.
template <class Model>
[[nodiscard]] stage_range whole_model(Model const& model) {
  return {0, static_cast<index>(model.num_blocks()), true, true};
}

/// Whether blocks of a model share something besides their results (model.hpp).
template <class Model>
concept has_shared_activations = requires {
  typename Model::shared_activations;
};

/// Model::shared_activations, or an empty type.
template <class Model>
struct shared_activations_of {
  struct type {};
};
template <has_shared_activations Model>
struct shared_activations_of<Model> {
  using type = typename Model::shared_activations;
};

/// The activations of a microbatch at a stage.
template <class Model>
struct stage_activations {
  using element = typename Model::element;

  typename shared_activations_of<Model>::type shared;
  std::vector<typename Model::block::saved> blocks;
  matrix_view<element> output;    ///< of the last part that ran, [rows, width]
  matrix_view<element> gradient;  ///< of the stage's output, in training; then what blocks pass on
  matrix_view<element const> input_gradient;  ///< of the last block that ran
};

/// Tells a context which rows this rank has, where documents begin and how many labels sequences
/// have, as between regions, from `share(batch)`, `documents(batch)` and `sequence_tokens(batch)`
/// of the model, where the model has them.
template <class Model, class Stream>
void set_rows(context<Stream>& c, Model const& model, typename Model::microbatch const& batch) {
  c.share = share_of(model, batch);
  if constexpr (requires { model.documents(batch); }) c.document_begins = model.documents(batch);
  if constexpr (requires { model.sequence_tokens(batch); })
    c.sequence_tokens = model.sequence_tokens(batch);
}

/// The context in which a pass of a microbatch begins.
template <class Model, class Stream>
[[nodiscard]] context<Stream> context_of(Model const& model, Stream& compute, arena& memory,
                                         pass mode, position current,
                                         typename Model::microbatch const& batch) {
  context<Stream> c{compute, memory, mode, current, model.sequence(batch)};
  set_rows(c, model, batch);
  return c;
}

/// The buffers at the edges of a stage that the passes of one microbatch read and write.
template <class Model>
struct stage_edges {
  using element = typename Model::element;

  matrix_view<element const> input = {};     ///< of the stage; none at the entry
  matrix_view<element> input_gradient = {};  ///< none at the entry
};

/// Memory that all passes of a rank share. `second` is a second scratch arena, for backward passes
/// whose weight gradients run on a separate stream; null: there are no such passes.
template <class Model>
class pass_memory {
 public:
  using element = typename Model::element;

  explicit pass_memory(arena& scratch, arena* second = nullptr)
      : scratch_(scratch), arenas_{&scratch, second == nullptr ? &scratch : second} {}

  [[nodiscard]] arena& scratch() { return scratch_; }

  /// Begins a backward pass in which the gradients that blocks pass on alternate between two
  /// buffers, `first` and one that is allocated here, so that one is written while the weight
  /// gradients read the other; between three when weight gradients overlap with the next block, and
  /// then scratch memory alternates between both arenas too.
  template <class Stream>
  void begin_alternating_buffers(context<Stream>& c, matrix_view<element> first,
                                 bool is_overlapped) {
    for (std::size_t i = 0; i < alternating_buffers::scratch; ++i)
      initial_marks_[i] = arenas_[i]->mark();
    gradient_count_ = is_overlapped ? alternating_buffers::gradients : 2;
    gradients_[0] = first;
    for (std::size_t i = 1; i < gradient_count_; ++i)
      gradients_[i] = c.with_memory(scratch_).template allocate<element, 2>(first.extents());
    for (std::size_t i = 0; i < alternating_buffers::scratch; ++i)
      empty_marks_[i] = arenas_[i]->mark();
  }
  /// The scratch arena of a block before which `blocks_done` blocks have run in this pass, emptied.
  [[nodiscard]] arena& reset_scratch(std::size_t blocks_done) {
    scratch_of(blocks_done).release(empty_marks_[blocks_done % alternating_buffers::scratch]);
    return scratch_of(blocks_done);
  }
  [[nodiscard]] arena& scratch_of(std::size_t blocks_done) {
    return *arenas_[blocks_done % alternating_buffers::scratch];
  }
  /// The gradient of that block's output.
  [[nodiscard]] matrix_view<element> output_gradient(std::size_t blocks_done) const {
    return gradients_[blocks_done % gradient_count_];
  }
  void end_alternating_buffers() {
    if (std::exchange(gradient_count_, 0) == 0) return;
    for (std::size_t i = 0; i < alternating_buffers::scratch; ++i)
      arenas_[i]->release(initial_marks_[i]);
  }

 private:
  arena& scratch_;
  std::size_t gradient_count_ = 0;
  std::array<arena*, alternating_buffers::scratch> arenas_;
  std::array<std::size_t, alternating_buffers::scratch> initial_marks_ = {};
  std::array<std::size_t, alternating_buffers::scratch> empty_marks_ = {};
  std::array<matrix_view<element>, alternating_buffers::gradients> gradients_ = {};
};

/// The passes of the parts of one stage.
template <class Model>
class stage {
 public:
  using element = typename Model::element;
  using microbatch = typename Model::microbatch;
  using activations = stage_activations<Model>;
  using edges = stage_edges<Model>;
  using memory = pass_memory<Model>;
  using sums_type = statistics<loss_type<element>>;

  stage(Model const& model, stage_range range) : model_(model), range_(range) {}

  [[nodiscard]] stage_range const& range() const { return range_; }

  /// Enqueues one pass of passes_of(range()) on the context's stream; passes must come in that
  /// order. The context's memory is the slot, which keeps what is needed until the microbatch's
  /// last pass. The exit adds to `sums`.
  template <class Stream>
  void run(part_pass const& pass, context<Stream> c, memory& shared, microbatch const& batch,
           edges const& boundary, activations& saved, sums_type& sums) const {
    using enum pass_kind;
    auto inner = c.with_memory(shared.scratch());
    part const p = pass.model_part;
    switch (pass.kind) {
      case forward:
        if (c.mode == pass::inference) return evaluate(c, inner, batch, p, boundary, saved, sums);
        c.scratch = &shared.scratch();  // layers that keep less than they compute put the rest here
        if (p == range_.front()) begin(c, batch, saved);
        if (p == embed)
          saved.output = declared(model_.embed(c, batch), p, batch);
        else
          saved.output = run_as_graph(c, forward_pass, p, saved, [&] {
            return declared(
                block_at(p).forward(c, input_of(p, boundary, saved), saved_by_block(saved, p)), p,
                batch);
          });
        return;
      case forward_backward: {
        arena::scope const temporaries(shared.scratch());
        return model_.head_loss(inner, batch, input_of(p, boundary, saved), saved.gradient, sums);
      }
      case backward: {
        if (p == range_.end - 1) shared.begin_alternating_buffers(c, saved.gradient, false);
        auto const dx = receives_stage_input(p) ? boundary.input_gradient
                                                : shared.output_gradient(blocks_before(p) + 1);
        {
          arena::scope const temporaries(shared.scratch());
          run_as_graph(inner, backward_pass, p, saved, [&] {
            matrix_view<element const> const dy = shared.output_gradient(blocks_before(p));
            backward_input_into(block_at(p), inner, dx, dy, saved_by_block(saved, p));
            block_at(p).backward_weight(inner, saved_by_block(saved, p));
          });
        }
        saved.input_gradient = dx;
        if (receives_stage_input(p)) shared.end_alternating_buffers();
        return;
      }
      case backward_input:
        if (pass.is_overlapped) return overlapped_input(c, shared, p, boundary, saved);
        saved.input_gradient =
            run_as_graph(c, input_pass, p, saved, [&]() -> matrix_view<element const> {
              auto const dy = p == range_.end - 1 ? saved.gradient : saved.input_gradient;
              if (!receives_stage_input(p))
                return block_at(p).backward_input(c, dy, saved_by_block(saved, p));
              backward_input_into(block_at(p), c, boundary.input_gradient, dy,
                                  saved_by_block(saved, p));
              return boundary.input_gradient;
            });
        return;
      case backward_weight: {
        if (pass.is_overlapped) {
          auto overlapped = c.with_memory(shared.scratch_of(blocks_before(p)));
          run_as_graph(overlapped, weight_pass, p, saved,
                       [&] { block_at(p).backward_weight(overlapped, saved_by_block(saved, p)); });
          return;
        }
        {
          arena::scope const temporaries(shared.scratch());
          if (p == embed)
            model_.enter_backward(inner, batch, saved.input_gradient);
          else
            run_as_graph(inner, weight_pass, p, saved,
                         [&] { block_at(p).backward_weight(inner, saved_by_block(saved, p)); });
        }
        if (p == embed) shared.end_alternating_buffers();
        return;
      }
      case join:
        if (receives_stage_input(p)) shared.end_alternating_buffers();
        return;
    }
  }

  /// Enqueues all passes of a computation, one after the other.
  template <class Stream>
  void run(pipeline::action_kind computes, context<Stream> const& c, memory& shared,
           microbatch const& batch, edges const& boundary, activations& saved,
           sums_type& sums) const {
    for (auto const& pass : passes_of(range_, computes, c.mode, false))
      run(pass, c, shared, batch, boundary, saved, sums);
  }

 private:
  enum block_pass { forward_pass, backward_pass, input_pass, weight_pass };

  /// Prepares the activations of a microbatch that reaches the stage, in training.
  template <class Stream>
  void begin(context<Stream>& c, microbatch const& batch, activations& saved) const {
    saved.blocks.assign(static_cast<std::size_t>(range_.end - range_.begin), {});
    make_shared_activations(c, batch, saved);
    for (part p = range_.begin; p < range_.end; ++p) attach(saved, p, saved_by_block(saved, p));
    saved.gradient = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
    saved.input_gradient = saved.gradient;
  }

  /// Checks that the result of a part has the rows and columns that the model declares.
  template <class Result>
  [[nodiscard]] Result declared(Result y, part p, microbatch const& batch) const {
    require(y.extent(0) == model_.rows(batch) && y.extent(1) == model_.width(),
            name_of_part(p, model_.num_blocks()), " gives activations of ", y.extent(0),
            " rows and ", y.extent(1), " columns, but the model's rows(batch) and width() say ",
            model_.rows(batch), " and ", model_.width(),
            "; where a tensor axis divides rows, its layers must have the model's region");
    return y;
  }

  [[nodiscard]] matrix_view<element const> input_of(part p, edges const& boundary,
                                                    activations const& saved) const {
    if (p == range_.front()) return boundary.input;
    return saved.output;
  }

  /// Runs a part that no backward pass will follow, and keeps its output alone.
  template <class Stream>
  void evaluate(context<Stream>& c, context<Stream>& inner, microbatch const& batch, part p,
                edges const& boundary, activations& saved, sums_type& sums) const {
    auto const store_output = [&](auto const& y) {
      ops::copy(c.stream, saved.output.span(), std::span<element const>(y.span()));
    };
    if (p == range_.front()) {
      saved.output = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
      make_shared_activations(c, batch, saved);
      if (!range_.entry) store_output(boundary.input);
    }
    arena::scope const temporaries(inner.memory);
    if (p == embed) return store_output(declared(model_.embed(inner, batch), p, batch));
    if (p == range_.end)
      return model_.head_loss(inner, batch, saved.output, matrix_view<element>{}, sums);
    typename Model::block::saved unused;
    attach(saved, p, unused);
    store_output(declared(block_at(p).forward(inner, saved.output, unused), p, batch));
  }

  /// Whether the part's input, and the gradient of it, belong to the previous stage.
  [[nodiscard]] bool receives_stage_input(part p) const {
    return p == range_.begin && !range_.entry;
  }

  /// The number of blocks that run before this one in a backward pass.
  [[nodiscard]] std::size_t blocks_before(part p) const {
    return static_cast<std::size_t>(range_.end - 1 - p);
  }
  template <class Stream>
  void overlapped_input(context<Stream>& c, memory& shared, part p, edges const& boundary,
                        activations& saved) const {
    if (p == range_.end - 1) shared.begin_alternating_buffers(c, saved.gradient, true);
    auto block_context = c.with_memory(shared.reset_scratch(blocks_before(p)));
    auto const dx = receives_stage_input(p) ? boundary.input_gradient
                                            : shared.output_gradient(blocks_before(p) + 1);
    run_as_graph(block_context, input_pass, p, saved, [&] {
      matrix_view<element const> const dy = shared.output_gradient(blocks_before(p));
      backward_input_into(block_at(p), block_context, dx, dy, saved_by_block(saved, p));
    });
    saved.input_gradient = dx;
  }

  /// Runs one pass of a block, as one graph on devices that have graphs, if the model says that its
  /// blocks exchange nothing with other ranks (`blocks_are_local()`).
  template <class Stream, class Work>
  auto run_as_graph(context<Stream>& c, block_pass kind, part p, activations const& saved,
                    Work&& work) const {
    if constexpr (requires { model_.blocks_are_local(); })
      if (model_.blocks_are_local())
        return as_graph(c.stream, {p, kind, saved.gradient.extent(0), c.overwrite_gradients}, work);
    return work();
  }

  template <class Stream>
  void make_shared_activations(context<Stream>& c, microbatch const& batch,
                               activations& saved) const {
    if constexpr (has_shared_activations<Model>)
      saved.shared = model_.make_shared_activations(c, batch, range_.begin, range_.end);
  }
  void attach([[maybe_unused]] activations& saved, [[maybe_unused]] part p,
              [[maybe_unused]] typename Model::block::saved& saved_of_block) const {
    if constexpr (has_shared_activations<Model>) model_.attach(saved.shared, p, saved_of_block);
  }

  [[nodiscard]] typename Model::block const& block_at(part p) const {
    return model_.at(static_cast<std::size_t>(p));
  }
  [[nodiscard]] typename Model::block::saved& saved_by_block(activations& saved, part p) const {
    return saved.blocks[static_cast<std::size_t>(p - range_.begin)];
  }

  Model const& model_;
  stage_range range_;
};

/// Runs forward and backward passes of one microbatch through a whole model, in one arena.
template <class Model, class Stream>
void run_microbatch(Model const& model, context<Stream>& c, typename Model::microbatch const& batch,
                    statistics<loss_type<typename Model::element>>& sums) {
  arena::scope const everything(c.memory);
  set_rows(c, model, batch);
  stage<Model> const whole(model, whole_model(model));
  pass_memory<Model> shared(c.memory);
  stage_activations<Model> saved;
  for (auto const computes : {pipeline::action_kind::forward, pipeline::action_kind::backward})
    whole.run(computes, c, shared, batch, {}, saved, sums);
}

/// Runs a forward pass for evaluation: keeps one activation and one block's temporaries.
template <class Model, class Stream>
void evaluate_microbatch(Model const& model, context<Stream>& c,
                         typename Model::microbatch const& batch,
                         statistics<loss_type<typename Model::element>>& sums) {
  arena::scope const everything(c.memory);
  set_rows(c, model, batch);
  auto inner = c;
  inner.mode = pass::inference;
  pass_memory<Model> shared(c.memory);
  stage_activations<Model> saved;
  stage<Model>(model, whole_model(model))
      .run(pipeline::action_kind::forward, inner, shared, batch, {}, saved, sums);
}

}  // namespace parallel::train
