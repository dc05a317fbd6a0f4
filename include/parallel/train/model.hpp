// The trainable-model concept: a column of blocks between an entry (ids to activations) and an exit
// (activations to a loss). MPT is one; the exact ring model of the tests is another.
//
// One microbatch's passes are driven here, for any model, so the life of every activation is
// decided in one place: forward allocates upwards in the arena, the backward pass of each block
// releases what its forward pass kept.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::train {

/// The parts of a backward pass, in forward order: enter = -1, block i = i, leave = num_blocks.
/// A unit names the part after which its gradients are complete.
using part = index;
inline constexpr part enter = -1;

/// Sums over the loss tokens of a step; never divided before all ranks' sums are added.
template <class Loss>
struct statistics {
  Loss loss = {};            // sum of token losses
  std::int64_t tokens = 0;   // tokens that have a label
  std::int64_t correct = 0;  // of these, where the most likely token is the label
};

/// The accumulator of losses: double for real elements, the element itself for exact rings.
template <class T>
using loss_type = std::conditional_t<std::is_integral_v<T>, accumulate_t<T>, double>;

/// What a model must offer to be trained. `leave` adds to the statistics, and when `dx` is not
/// empty writes the gradient of the summed loss there and adds to the exit's weight gradients.
/// `enter_backward` reads no values of parameters: they need not be there.
template <class M, class Stream>
concept model = requires(M& m, M const& cm, context<Stream>& c, typename M::microbatch const& batch,
                         matrix_view<typename M::element> dx,
                         matrix_view<typename M::element const> x,
                         statistics<loss_type<typename M::element>>& sums,
                         typename M::block::saved& kept) {
  { cm.num_blocks() } -> std::convertible_to<std::size_t>;
  { cm.at(std::size_t{}) } -> std::convertible_to<typename M::block const&>;
  { cm.rows(batch) } -> std::convertible_to<index>;
  { cm.sequence(batch) } -> std::convertible_to<index>;
  { cm.width() } -> std::convertible_to<index>;
  { cm.enter(c, batch) } -> std::same_as<matrix_view<typename M::element>>;
  cm.leave(c, batch, x, dx, sums);
  cm.enter_backward(c, batch, x);
};

/// Which rows of its sequences a microbatch consists of: what model.share(batch) says, or all.
template <class Model>
[[nodiscard]] row_share share_of(Model const& model, typename Model::microbatch const& batch) {
  if constexpr (requires { model.share(batch); })
    return model.share(batch);
  else
    return {};
}

/// What a strategy does around the parts of a microbatch: nothing.
struct no_hooks {
  void before_forward(part) {}
  void after_forward(part) {}
  void before_backward(part) {}
  void after_backward(part) {}  // the part's gradients of this microbatch are enqueued
};

/// Forward and backward of one microbatch. Arena: what the blocks keep, one gradient
/// [rows, width], and the temporaries of one block's backward pass.
template <class Model, class Stream, class Hooks = no_hooks>
void run_microbatch(Model const& model, context<Stream>& c, typename Model::microbatch const& batch,
                    statistics<loss_type<typename Model::element>>& sums, Hooks&& hooks = Hooks{}) {
  using element = typename Model::element;
  arena::scope const everything(c.memory);
  auto gradient =
      c.template allocate<element, 2>({model.rows(batch), static_cast<index>(model.width())});

  std::size_t const blocks = model.num_blocks();
  auto const last = static_cast<part>(blocks);
  std::vector<typename Model::block::saved> kept(blocks);
  std::vector<std::size_t> marks(blocks);
  hooks.before_forward(enter);
  matrix_view<element const> x = model.enter(c, batch);
  hooks.after_forward(enter);
  for (std::size_t i = 0; i < blocks; ++i) {
    marks[i] = c.memory.mark();
    hooks.before_forward(static_cast<part>(i));
    x = model.at(i).forward(c, x, kept[i]);
    hooks.after_forward(static_cast<part>(i));
  }
  {
    arena::scope const temporaries(c.memory);
    hooks.before_backward(last);  // both passes are one
    model.leave(c, batch, x, gradient, sums);
    hooks.after_backward(last);
  }
  for (std::size_t i = blocks; i-- > 0;) {
    hooks.before_backward(static_cast<part>(i));
    auto const dx = model.at(i).backward_input(c, gradient, kept[i]);
    model.at(i).backward_weight(c, kept[i]);
    ops::copy(c.stream, gradient.span(), std::span<element const>(dx.span()));
    c.memory.release(marks[i]);
    hooks.after_backward(static_cast<part>(i));
  }
  hooks.before_backward(enter);
  model.enter_backward(c, batch, gradient);
  hooks.after_backward(enter);
}

/// Forward only, for evaluation: keeps one activation and one block's temporaries.
template <class Model, class Stream, class Hooks = no_hooks>
void evaluate_microbatch(Model const& model, context<Stream>& c,
                         typename Model::microbatch const& batch,
                         statistics<loss_type<typename Model::element>>& sums,
                         Hooks&& hooks = Hooks{}) {
  using element = typename Model::element;
  arena::scope const everything(c.memory);
  hooks.before_forward(enter);
  auto x = model.enter(c, batch);
  hooks.after_forward(enter);
  for (std::size_t i = 0; i < model.num_blocks(); ++i) {
    arena::scope const temporaries(c.memory);
    typename Model::block::saved kept;
    hooks.before_forward(static_cast<part>(i));
    auto const y = model.at(i).forward(c, x, kept);
    hooks.after_forward(static_cast<part>(i));
    ops::copy(c.stream, x.span(), std::span<element const>(y.span()));
  }
  hooks.before_forward(static_cast<part>(model.num_blocks()));
  model.leave(c, batch, x, {}, sums);
  hooks.after_forward(static_cast<part>(model.num_blocks()));
}

}  // namespace parallel::train
