// model: the concept of a trainable model: a column of blocks between an entry (ids to activations)
// and an exit (activations to a loss). MPT is one; the exact ring model of the tests is another.
//
// stage.hpp runs its passes.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/core/statistics.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/train/parts.hpp>

namespace parallel::train {

using parallel::statistics;

/// The accumulator of losses: double for real elements, the element itself for exact rings.
template <class T>
using loss_type = std::conditional_t<std::is_integral_v<T>, accumulate_t<T>, double>;

namespace detail {
/// A function that visits units of any layer.
template <class T>
struct unit_visitor {
  template <class Layer>
  void operator()(std::string const& name, Layer& layer, std::vector<part> const& parts,
                  std::vector<parameter_base<T>*> const& uses) const;
};
}  // namespace detail

/// The requirements of a model that a stepper trains. (Optionally a model has `share` and
/// `documents`, see stage.hpp, and `blocks_are_local`, see stage::run_as_graph.) `visit_units`
/// calls a function with each unit's name, its layer, the parts that use it and the tied parameters
/// by which all parts but the first use it; without tied parameters, all parts compute with the
/// layer itself. `head_loss` adds to the statistics, and when `dx` is not empty writes the
/// gradient of the summed loss there and adds to the exit's weight gradients. `enter_backward` must
/// not read values of parameters, which may be absent.
///
/// A model that exchanges as much as its data says, in buffers of a planned size, has
/// may_overflow(), has_overflowed(record), which tells from the step's record (record_size_of) that
/// something had no room, and grow_buffers(). Such a step updates nothing, and session::step makes
/// it again.
///
/// A model whose blocks share something besides their results has a type `shared_activations` for
/// it. make_shared_activations(c, batch, begin, end) computes what blocks [begin, end) need for one
/// microbatch, in `c`'s memory, which lasts as long as what the blocks keep; attach(shared, i,
/// saved) gives it to block i before the block's forward pass.
template <class M, class Stream>
concept model = requires(M& m, M const& cm, context<Stream>& c, typename M::microbatch const& batch,
                         matrix_view<typename M::element> dx,
                         matrix_view<typename M::element const> x,
                         statistics<loss_type<typename M::element>>& sums,
                         typename M::block::saved& saved) {
  { cm.num_blocks() } -> std::convertible_to<std::size_t>;
  { cm.at(std::size_t{}) } -> std::convertible_to<typename M::block const&>;
  { cm.rows(batch) } -> std::convertible_to<index>;
  { cm.sequence(batch) } -> std::convertible_to<index>;
  { cm.width() } -> std::convertible_to<index>;
  m.visit_units(detail::unit_visitor<typename M::element>{});
  { cm.embed(c, batch) } -> std::same_as<matrix_view<typename M::element>>;
  cm.head_loss(c, batch, x, dx, sums);
  cm.enter_backward(c, batch, x);
};

/// The rows of its sequences that a microbatch consists of: what model.share(batch) says, or all.
template <class Model>
[[nodiscard]] row_share share_of(Model const& model, typename Model::microbatch const& batch) {
  if constexpr (requires { model.share(batch); })
    return model.share(batch);
  else
    return {};
}

/// The numbers that a model's layers report of a step (context::record): what record_size() says.
template <class Model>
[[nodiscard]] std::size_t record_size_of(Model const& model) {
  if constexpr (requires { model.record_size(); })
    return static_cast<std::size_t>(model.record_size());
  else
    return 0;
}

/// The extent of a microbatch: its number of rows, and model.memory_variant(batch) if the model has
/// that function. Microbatches of equal extents need the same memory.
template <class Model>
[[nodiscard]] std::pair<index, index> extent_of(Model const& model,
                                                typename Model::microbatch const& batch) {
  if constexpr (requires { model.memory_variant(batch); })
    return {model.rows(batch), model.memory_variant(batch)};
  else
    return {model.rows(batch), 0};
}

}  // namespace parallel::train
