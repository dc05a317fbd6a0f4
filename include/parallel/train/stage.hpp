// stage: what one microbatch does in each part (parts.hpp) of a range of a model's blocks, with its
// entry and exit where it has them; a whole model is the stage of all blocks.
//
// The life of every activation is decided here. What a forward pass keeps lies in one arena, the
// slot, until the weight gradients are there; what a pass needs on its way lies in another, the
// scratch arena, which all passes of a rank share. When the two halves of a backward pass are
// apart, what the second needs of the first lies in the slot too.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/train/declarations.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/parts.hpp>

namespace parallel::train {

/// All of a model.
template <class Model>
[[nodiscard]] stage_range whole_model(Model const& model) {
  return {0, static_cast<index>(model.num_blocks()), true, true};
}

/// Whether blocks of a model show each other something beside their results (model.hpp).
template <class Model>
concept has_shared_activations = requires {
  typename Model::shared_activations;
};

/// Model::shared_activations, or nothing.
template <class Model>
struct shared_activations_of {
  struct type {};
};
template <has_shared_activations Model>
struct shared_activations_of<Model> {
  using type = typename Model::shared_activations;
};

/// A microbatch on its way through a stage.
template <class Model>
struct stage_activations {
  using element = typename Model::element;

  typename shared_activations_of<Model>::type shared;
  std::vector<typename Model::block::saved> blocks;
  matrix_view<element> output;    // of the last part that ran, [rows, width]
  matrix_view<element> gradient;  // of the stage's output, in training; then what blocks hand on
  matrix_view<element const> handed;  // the gradient of the input of the last block that ran
};

/// Tells a context which rows are here and where documents begin, as between regions; a model says
/// it with `share(batch)` and `documents(batch)`, if it has them.
template <class Model, class Stream>
void place(context<Stream>& c, Model const& model, typename Model::microbatch const& batch) {
  c.share = share_of(model, batch);
  if constexpr (requires { model.documents(batch); }) c.document_begins = model.documents(batch);
}

/// The context in which a pass of a microbatch begins.
template <class Model, class Stream>
[[nodiscard]] context<Stream> context_of(Model const& model, Stream& compute, arena& memory,
                                         pass mode, position where,
                                         typename Model::microbatch const& batch) {
  context<Stream> c{compute, memory, mode, where, model.sequence(batch)};
  place(c, model, batch);
  return c;
}

/// Where the passes of one microbatch at a stage read and write, beside the slot.
template <class Model>
struct stage_edges {
  using element = typename Model::element;

  matrix_view<element const> input = {};     // of the stage; none at the entry
  matrix_view<element> input_gradient = {};  // none at the entry
};

/// Memory that all passes of a rank share. `other` is a second place for what they need on their
/// way, of backward passes whose weights' gradients run beside; null: there are none.
template <class Model>
class pass_memory {
 public:
  using element = typename Model::element;

  explicit pass_memory(arena& scratch, arena* other = nullptr)
      : scratch_(scratch), places_{&scratch, other == nullptr ? &scratch : other} {}

  [[nodiscard]] arena& scratch() { return scratch_; }

  /// A backward pass begins in which the gradients that blocks hand on take turns in two places,
  /// `first` and another here, so that one is written while the weights' gradients read the one
  /// before; in three where weights' gradients run beside the next block, which take turns in both
  /// scratch places too.
  template <class Stream>
  void begin_turns(context<Stream>& c, matrix_view<element> first, bool beside) {
    for (std::size_t i = 0; i < turns::scratch; ++i) begins_[i] = places_[i]->mark();
    turns_ = beside ? turns::handed : 2;
    handed_[0] = first;
    for (std::size_t i = 1; i < turns_; ++i)
      handed_[i] = c.with_memory(scratch_).template allocate<element, 2>(first.extents());
    for (std::size_t i = 0; i < turns::scratch; ++i) free_[i] = places_[i]->mark();
  }
  /// The scratch of a block before which so many have run in this pass, empty.
  [[nodiscard]] arena& empty_place(std::size_t before) {
    place(before).release(free_[before % turns::scratch]);
    return place(before);
  }
  [[nodiscard]] arena& place(std::size_t before) { return *places_[before % turns::scratch]; }
  /// The gradient that such a block is handed.
  [[nodiscard]] matrix_view<element> handed(std::size_t before) const {
    return handed_[before % turns_];
  }
  void end_turns() {
    if (std::exchange(turns_, 0) == 0) return;
    for (std::size_t i = 0; i < turns::scratch; ++i) places_[i]->release(begins_[i]);
  }

 private:
  arena& scratch_;
  std::size_t turns_ = 0;
  std::array<arena*, turns::scratch> places_;
  std::array<std::size_t, turns::scratch> begins_ = {};
  std::array<std::size_t, turns::scratch> free_ = {};
  std::array<matrix_view<element>, turns::handed> handed_ = {};
};

/// Passes of the parts of one stage.
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

  /// Enqueues one pass of passes_of(range()) on the context's stream; they must come in that order.
  /// The context's memory is the slot, which keeps what is needed until the microbatch's last pass.
  /// The exit adds to `sums`.
  template <class Stream>
  void run(part_pass const& what, context<Stream> c, memory& shared, microbatch const& batch,
           edges const& at, activations& kept, sums_type& sums) const {
    using enum pass_kind;
    auto inner = c.with_memory(shared.scratch());
    part const p = what.of;
    switch (what.kind) {
      case forward:
        if (c.mode == pass::inference) return evaluate(c, inner, batch, p, at, kept, sums);
        c.scratch = &shared.scratch();  // layers that keep less than they make put the rest there
        if (p == range_.front()) begin(c, batch, kept);
        if (p == embed)
          kept.output = declared(model_.embed(c, batch), p, batch);
        else
          kept.output = as_one(c, forward_pass, p, kept, [&] {
            return declared(at_block(p).forward(c, input_of(p, at, kept), kept_of(kept, p)), p,
                            batch);
          });
        return;
      case forward_backward: {
        arena::scope const temporaries(shared.scratch());
        return model_.head_loss(inner, batch, input_of(p, at, kept), kept.gradient, sums);
      }
      case backward: {
        if (p == range_.end - 1) shared.begin_turns(c, kept.gradient, false);
        auto const dx = leaves(p) ? at.input_gradient : shared.handed(before(p) + 1);
        {
          arena::scope const temporaries(shared.scratch());
          as_one(inner, backward_pass, p, kept, [&] {
            matrix_view<element const> const dy = shared.handed(before(p));
            backward_input_into(at_block(p), inner, dx, dy, kept_of(kept, p));
            at_block(p).backward_weight(inner, kept_of(kept, p));
          });
        }
        kept.handed = dx;
        if (leaves(p)) shared.end_turns();
        return;
      }
      case backward_input:
        if (what.beside) return input_beside(c, shared, p, at, kept);
        kept.handed = as_one(c, input_pass, p, kept, [&]() -> matrix_view<element const> {
          auto const dy = p == range_.end - 1 ? kept.gradient : kept.handed;
          if (!leaves(p)) return at_block(p).backward_input(c, dy, kept_of(kept, p));
          backward_input_into(at_block(p), c, at.input_gradient, dy, kept_of(kept, p));
          return at.input_gradient;
        });
        return;
      case backward_weight: {
        if (what.beside) {
          auto beside = c.with_memory(shared.place(before(p)));
          as_one(beside, weight_pass, p, kept,
                 [&] { at_block(p).backward_weight(beside, kept_of(kept, p)); });
          return;
        }
        {
          arena::scope const temporaries(shared.scratch());
          if (p == embed)
            model_.enter_backward(inner, batch, kept.handed);
          else
            as_one(inner, weight_pass, p, kept,
                   [&] { at_block(p).backward_weight(inner, kept_of(kept, p)); });
        }
        if (p == embed) shared.end_turns();
        return;
      }
      case join:
        if (leaves(p)) shared.end_turns();
        return;
    }
  }

  /// All passes of a computation, one after the other.
  template <class Stream>
  void run(pipeline::action_kind computes, context<Stream> const& c, memory& shared,
           microbatch const& batch, edges const& at, activations& kept, sums_type& sums) const {
    for (auto const& one : passes_of(range_, computes, c.mode, false))
      run(one, c, shared, batch, at, kept, sums);
  }

 private:
  enum block_pass { forward_pass, backward_pass, input_pass, weight_pass };

  /// A microbatch comes to the stage, in training.
  template <class Stream>
  void begin(context<Stream>& c, microbatch const& batch, activations& kept) const {
    kept.blocks.assign(static_cast<std::size_t>(range_.end - range_.begin), {});
    make_shared_activations(c, batch, kept);
    for (part p = range_.begin; p < range_.end; ++p) attach(kept, p, kept_of(kept, p));
    kept.gradient = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
    kept.handed = kept.gradient;
  }

  /// The result of a part, which must have the rows and columns that the model declares.
  template <class Result>
  [[nodiscard]] Result declared(Result y, part p, microbatch const& batch) const {
    require(y.extent(0) == model_.rows(batch) && y.extent(1) == model_.width(),
            name_of_part(p, model_.num_blocks()), " gives activations of ", y.extent(0),
            " rows and ", y.extent(1), " columns, but the model's rows(batch) and width() say ",
            model_.rows(batch), " and ", model_.width(),
            "; where a tensor axis divides rows, its layers must have the model's region");
    return y;
  }

  [[nodiscard]] matrix_view<element const> input_of(part p, edges const& at,
                                                    activations const& kept) const {
    if (p == range_.front()) return at.input;
    return kept.output;
  }

  /// A part without a backward pass to come: keeps its output alone.
  template <class Stream>
  void evaluate(context<Stream>& c, context<Stream>& inner, microbatch const& batch, part p,
                edges const& at, activations& kept, sums_type& sums) const {
    auto const keep = [&](auto const& y) {
      ops::copy(c.stream, kept.output.span(), std::span<element const>(y.span()));
    };
    if (p == range_.front()) {
      kept.output = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
      make_shared_activations(c, batch, kept);
      if (!range_.entry) keep(at.input);
    }
    arena::scope const temporaries(inner.memory);
    if (p == embed) return keep(declared(model_.embed(inner, batch), p, batch));
    if (p == range_.end)
      return model_.head_loss(inner, batch, kept.output, matrix_view<element>{}, sums);
    typename Model::block::saved unused;
    attach(kept, p, unused);
    keep(declared(at_block(p).forward(inner, kept.output, unused), p, batch));
  }

  /// Whether the gradient of the part's input is the stage before's.
  [[nodiscard]] bool leaves(part p) const { return p == range_.begin && !range_.entry; }

  /// Blocks that run before this one in a backward pass.
  [[nodiscard]] std::size_t before(part p) const {
    return static_cast<std::size_t>(range_.end - 1 - p);
  }
  template <class Stream>
  void input_beside(context<Stream>& c, memory& shared, part p, edges const& at,
                    activations& kept) const {
    if (p == range_.end - 1) shared.begin_turns(c, kept.gradient, true);
    auto here = c.with_memory(shared.empty_place(before(p)));
    auto const dx = leaves(p) ? at.input_gradient : shared.handed(before(p) + 1);
    as_one(here, input_pass, p, kept, [&] {
      matrix_view<element const> const dy = shared.handed(before(p));
      backward_input_into(at_block(p), here, dx, dy, kept_of(kept, p));
    });
    kept.handed = dx;
  }

  /// One pass of a block, which is one graph on devices that have them, if the model says that its
  /// blocks exchange nothing with other ranks (`blocks_are_local()`).
  template <class Stream, class Work>
  auto as_one(context<Stream>& c, block_pass which, part p, activations const& kept,
              Work&& work) const {
    if constexpr (requires { model_.blocks_are_local(); })
      if (model_.blocks_are_local())
        return as_graph(c.stream, {p, which, kept.gradient.extent(0), c.overwrite_gradients}, work);
    return work();
  }

  template <class Stream>
  void make_shared_activations(context<Stream>& c, microbatch const& batch,
                               activations& kept) const {
    if constexpr (has_shared_activations<Model>)
      kept.shared = model_.make_shared_activations(c, batch, range_.begin, range_.end);
  }
  void attach([[maybe_unused]] activations& kept, [[maybe_unused]] part p,
              [[maybe_unused]] typename Model::block::saved& of_block) const {
    if constexpr (has_shared_activations<Model>) model_.attach(kept.shared, p, of_block);
  }

  [[nodiscard]] typename Model::block const& at_block(part p) const {
    return model_.at(static_cast<std::size_t>(p));
  }
  [[nodiscard]] typename Model::block::saved& kept_of(activations& kept, part p) const {
    return kept.blocks[static_cast<std::size_t>(p - range_.begin)];
  }

  Model const& model_;
  stage_range range_;
};

/// Forward and backward of one microbatch through a whole model, in one arena.
template <class Model, class Stream>
void run_microbatch(Model const& model, context<Stream>& c, typename Model::microbatch const& batch,
                    statistics<loss_type<typename Model::element>>& sums) {
  arena::scope const everything(c.memory);
  place(c, model, batch);
  stage<Model> const all(model, whole_model(model));
  pass_memory<Model> shared(c.memory);
  stage_activations<Model> kept;
  for (auto const computes : {pipeline::action_kind::forward, pipeline::action_kind::backward})
    all.run(computes, c, shared, batch, {}, kept, sums);
}

/// Forward only, for evaluation: keeps one activation and one block's temporaries.
template <class Model, class Stream>
void evaluate_microbatch(Model const& model, context<Stream>& c,
                         typename Model::microbatch const& batch,
                         statistics<loss_type<typename Model::element>>& sums) {
  arena::scope const everything(c.memory);
  place(c, model, batch);
  auto inner = c;
  inner.mode = pass::inference;
  pass_memory<Model> shared(c.memory);
  stage_activations<Model> kept;
  stage<Model>(model, whole_model(model))
      .run(pipeline::action_kind::forward, inner, shared, batch, {}, kept, sums);
}

}  // namespace parallel::train
