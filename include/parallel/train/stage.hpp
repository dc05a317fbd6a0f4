// stage: the passes of a range of a model's blocks, with its entry and exit where it has them; a
// whole model is the stage of all blocks.
//
// The life of every activation is decided here. What a forward pass keeps lies in one arena, the
// slot, until the weight gradients are there; what a pass needs on its way lies in another, the
// scratch arena, which all passes of a rank share. When the two halves of a backward pass are
// apart, what the second needs of the first lies in the slot too.
#pragma once

#include <cstddef>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// All of a model.
template <class Model>
[[nodiscard]] stage_range whole_model(Model const& model) {
  return {0, static_cast<index>(model.num_blocks()), true, true};
}

/// Whether blocks of a model show each other something beside their results (model.hpp).
template <class Model>
concept has_links = requires {
  typename Model::links;
};

/// Model::links, or nothing.
template <class Model>
struct links_of {
  struct type {};
};
template <has_links Model>
struct links_of<Model> {
  using type = typename Model::links;
};

/// A microbatch on its way through a stage.
template <class Model>
struct stage_activations {
  using element = typename Model::element;

  typename links_of<Model>::type links;
  std::vector<typename Model::block::saved> blocks;
  matrix_view<element> output;          // [rows, width]; none at the exit
  matrix_view<element> gradient;        // of the output, in training
  matrix_view<element const> of_entry;  // the gradient of what the entry made, between the halves
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

/// Passes of one stage. Contexts bring the arena that the results go to.
template <class Model>
class stage {
 public:
  using element = typename Model::element;
  using microbatch = typename Model::microbatch;
  using activations = stage_activations<Model>;
  using sums_type = statistics<loss_type<element>>;

  stage(Model const& model, stage_range range) : model_(model), range_(range) {}

  [[nodiscard]] stage_range const& range() const { return range_; }

  /// From `input` (at the entry from the microbatch's ids) to the output; at the exit to the loss
  /// and the gradient of what comes before it.
  template <class Stream, class Hooks>
  void forward(context<Stream>& c, arena& scratch, microbatch const& batch,
               matrix_view<element const> input, activations& kept, sums_type& sums,
               Hooks& hooks) const {
    kept.blocks.assign(static_cast<std::size_t>(range_.end - range_.begin), {});
    make_links(c, batch, kept);
    for (part p = range_.begin; p < range_.end; ++p) attach(kept, p, kept_of(kept, p));
    kept.gradient = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
    c.scratch = &scratch;  // layers that keep less than they make put the rest there
    matrix_view<element> last;
    matrix_view<element const> x = input;
    if (range_.entry) {
      hooks.before_forward(enter);
      x = last = model_.enter(c, batch);
      hooks.after_forward(enter);
    }
    for (part p = range_.begin; p < range_.end; ++p) {
      hooks.before_forward(p);
      x = last =
          as_one(c, forward_pass, p, kept, [&] { return at(p).forward(c, x, kept_of(kept, p)); });
      hooks.after_forward(p);
    }
    kept.output = last;
    if (!range_.exit) return;
    arena::scope const temporaries(scratch);
    auto inner = c.on(scratch);
    hooks.before_backward(range_.end);  // both passes are one
    model_.leave(inner, batch, x, kept.gradient, sums);
    hooks.after_backward(range_.end);
  }

  /// The whole backward pass, whose context is of the scratch arena; `d_input` receives the
  /// gradient of the input, without an entry.
  template <class Stream, class Hooks>
  void backward(context<Stream>& c, microbatch const& batch, activations& kept,
                matrix_view<element> d_input, Hooks& hooks) const {
    for (part p = range_.end; p-- > range_.begin;) {
      arena::scope const temporaries(c.memory);
      hooks.before_backward(p);
      auto const dx = as_one(c, backward_pass, p, kept, [&] {
        auto const made = at(p).backward_input(c, kept.gradient, kept_of(kept, p));
        at(p).backward_weight(c, kept_of(kept, p));
        return made;
      });
      bool const first = p == range_.begin && !range_.entry;
      ops::copy(c.stream, (first ? d_input : kept.gradient).span(),
                std::span<element const>(dx.span()));
      hooks.after_backward(p);
    }
    if (!range_.entry) return;
    arena::scope const temporaries(c.memory);
    leave_entry(c, batch, kept.gradient, hooks);
  }

  /// The same with the weights' gradients on `weights`, a stream of their own: those of a block
  /// beside the input gradient of the next. Blocks take turns in the context's memory and `other`;
  /// what they are handed lies in two places too, so a block waits for the weights of the one
  /// before it only when its own input gradient is there.
  template <class Stream, class Hooks>
  void backward(context<Stream>& c, Stream& weights, arena& other, microbatch const& batch,
                activations& kept, matrix_view<element> d_input, Hooks& hooks) const {
    arena::scope const outer(c.memory), inner(other);
    matrix_view<element> handed[] = {kept.gradient,
                                     c.template allocate<element, 2>({kept.gradient.extents()})};
    arena* const memory[] = {&c.memory, &other};
    std::size_t const empty[] = {c.memory.mark(), other.mark()};
    part const nothing = range_.end;
    part pending = nothing;  // whose weight gradients `weights` is busy with
    auto const join = [&] {
      if (pending == nothing) return;
      c.stream.wait(weights.record());
      hooks.after_backward_weight(pending);
    };
    std::size_t turn = 0;
    for (part p = range_.end; p-- > range_.begin; turn = 1 - turn) {
      memory[turn]->release(empty[turn]);
      auto here = c.on(*memory[turn]);
      hooks.before_backward_input(p);
      auto const dx = as_one(here, input_pass, p, kept, [&] {
        return at(p).backward_input(here, handed[turn], kept_of(kept, p));
      });
      hooks.after_backward_input(p);
      join();
      bool const first = p == range_.begin && !range_.entry;
      ops::copy(c.stream, (first ? d_input : handed[1 - turn]).span(),
                std::span<element const>(dx.span()));
      hooks.before_backward_weight(p);
      weights.wait(c.stream.record());
      auto beside = here.on(weights);
      as_one(beside, weight_pass, p, kept,
             [&] { at(p).backward_weight(beside, kept_of(kept, p)); });
      pending = p;
    }
    join();
    if (range_.entry) leave_entry(c, batch, handed[turn], hooks);
  }

  /// Its first half, whose context is of the slot: everything but the weights' gradients.
  template <class Stream, class Hooks>
  void backward_input(context<Stream>& c, activations& kept, matrix_view<element> d_input,
                      Hooks& hooks) const {
    matrix_view<element const> gradient = kept.gradient;
    for (part p = range_.end; p-- > range_.begin;) {
      hooks.before_backward_input(p);
      gradient = as_one(c, input_pass, p, kept,
                        [&] { return at(p).backward_input(c, gradient, kept_of(kept, p)); });
      hooks.after_backward_input(p);
    }
    if (range_.entry)
      kept.of_entry = gradient;
    else
      ops::copy(c.stream, d_input.span(), gradient.span());
  }

  /// Its second half, whose context is of the scratch arena.
  template <class Stream, class Hooks>
  void backward_weight(context<Stream>& c, microbatch const& batch, activations& kept,
                       Hooks& hooks) const {
    arena::scope const temporaries(c.memory);
    for (part p = range_.end; p-- > range_.begin;) {
      hooks.before_backward_weight(p);
      as_one(c, weight_pass, p, kept, [&] { at(p).backward_weight(c, kept_of(kept, p)); });
      hooks.after_backward_weight(p);
    }
    if (range_.entry) leave_entry(c, batch, kept.of_entry, hooks);
  }

  /// Forward without a backward pass to come: keeps the output alone.
  template <class Stream, class Hooks>
  void evaluate(context<Stream>& c, arena& scratch, microbatch const& batch,
                matrix_view<element const> input, activations& kept, sums_type& sums,
                Hooks& hooks) const {
    auto x = kept.output = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
    make_links(c, batch, kept);
    auto inner = c.on(scratch);
    auto const run = [&](part p, auto&& compute) {
      arena::scope const temporaries(scratch);
      hooks.before_forward(p);
      compute();
      hooks.after_forward(p);
    };
    auto const keep = [&](auto const& y) {
      ops::copy(c.stream, x.span(), std::span<element const>(y.span()));
    };
    if (range_.entry)
      run(enter, [&] { keep(model_.enter(inner, batch)); });
    else
      keep(input);
    for (part p = range_.begin; p < range_.end; ++p)
      run(p, [&] {
        typename Model::block::saved unused;
        attach(kept, p, unused);
        keep(at(p).forward(inner, x, unused));
      });
    if (range_.exit) run(range_.end, [&] { model_.leave(inner, batch, x, {}, sums); });
  }

 private:
  enum block_pass { forward_pass, backward_pass, input_pass, weight_pass };

  /// One pass of a block, which is one graph on devices that have them, if the model says that its
  /// blocks exchange nothing with other ranks (`blocks_are_local()`).
  template <class Stream, class Work>
  auto as_one(context<Stream>& c, block_pass which, part p, activations const& kept,
              Work&& work) const {
    if constexpr (requires { model_.blocks_are_local(); })
      if (model_.blocks_are_local())
        return as_graph(c.stream, {p, which, kept.gradient.extent(0), c.fresh_gradients}, work);
    return work();
  }

  template <class Stream>
  void make_links(context<Stream>& c, microbatch const& batch, activations& kept) const {
    if constexpr (has_links<Model>)
      kept.links = model_.make_links(c, batch, range_.begin, range_.end);
  }
  void attach([[maybe_unused]] activations& kept, [[maybe_unused]] part p,
              [[maybe_unused]] typename Model::block::saved& of_block) const {
    if constexpr (has_links<Model>) model_.attach(kept.links, p, of_block);
  }

  /// The entry has no input gradient.
  template <class Stream, class Hooks>
  void leave_entry(context<Stream>& c, microbatch const& batch, matrix_view<element const> gradient,
                   Hooks& hooks) const {
    hooks.before_backward_weight(enter);
    model_.enter_backward(c, batch, gradient);
    hooks.after_backward_weight(enter);
  }

  [[nodiscard]] typename Model::block const& at(part p) const {
    return model_.at(static_cast<std::size_t>(p));
  }
  [[nodiscard]] typename Model::block::saved& kept_of(activations& kept, part p) const {
    return kept.blocks[static_cast<std::size_t>(p - range_.begin)];
  }

  Model const& model_;
  stage_range range_;
};

/// Forward and backward of one microbatch through a whole model, in one arena.
template <class Model, class Stream, class Hooks = no_hooks>
void run_microbatch(Model const& model, context<Stream>& c, typename Model::microbatch const& batch,
                    statistics<loss_type<typename Model::element>>& sums, Hooks&& hooks = Hooks{}) {
  arena::scope const everything(c.memory);
  place(c, model, batch);
  stage<Model> const all(model, whole_model(model));
  stage_activations<Model> kept;
  all.forward(c, c.memory, batch, {}, kept, sums, hooks);
  all.backward(c, batch, kept, {}, hooks);
}

/// Forward only, for evaluation: keeps one activation and one block's temporaries.
template <class Model, class Stream, class Hooks = no_hooks>
void evaluate_microbatch(Model const& model, context<Stream>& c,
                         typename Model::microbatch const& batch,
                         statistics<loss_type<typename Model::element>>& sums,
                         Hooks&& hooks = Hooks{}) {
  arena::scope const everything(c.memory);
  place(c, model, batch);
  stage_activations<Model> kept;
  stage<Model>(model, whole_model(model)).evaluate(c, c.memory, batch, {}, kept, sums, hooks);
}

}  // namespace parallel::train
