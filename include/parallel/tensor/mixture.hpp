// mixture: experts that a router chooses for each row, with experts that all rows use, as one
// region of the tensor axis. Every rank routes all rows alike, and has some of the hidden units of
// every expert, so that its result, and its gradient of the router, are addends.
#pragma once

#include <optional>

#include <parallel/layer/experts.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/tensor/expert_ranks.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

template <class Activation, class Comm>
struct mixture {
  using element = typename Activation::element;
  using T = element;
  using expert_layer = experts<Activation, expert_ranks<Comm>>;
  using shared_layer = experts<Activation>;
  static constexpr bool takes_divided_sequences = true;

  region<Comm> tensor_region;
  expert_layer routed;
  std::optional<shared_layer> shared;  ///< one expert, for all rows, weighted where it has a router
  parameter<T, 1> bias;                ///< [width], of the whole result; or absent

  struct saved {
    typename expert_layer::saved routed;
    typename shared_layer::saved shared;
    matrix_view<T const> dy;  ///< of the local rows
  };

  /// `summand`, of this rank's rows, is added once.
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    bool const adds_alone = tensor_region.is_single_rank();
    auto inner = c.for_all_rows();
    auto const rows = tensor_region.enter(c, x);
    matrix_view<T const> part = adds_alone ? summand : matrix_view<T const>{};
    if (shared) part = shared->forward(inner, rows, state.shared, part);
    auto const y =
        tensor_region.leave(c, addend<T>{routed.forward(inner, rows, state.routed, part)});
    add_bias_onto(c, y, bias, adds_alone ? matrix_view<T const>{} : summand);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    bool const adds_alone = tensor_region.is_single_rank();
    state.dy = dy;
    auto inner = c.for_all_rows();
    auto const gradient = tensor_region.enter(c, dy);
    matrix_view<T const> part = adds_alone ? summand : matrix_view<T const>{};
    if (shared) part = shared->backward_input(inner, gradient, state.shared, part);
    auto const dx = tensor_region.leave(
        c, addend<T>{routed.backward_input(inner, gradient, state.routed, part)});
    if (!adds_alone && !summand.empty()) ops::add(c.stream, dx.span(), summand.span());
    return dx;
  }

  /// As linear::restore_input; gathered rows are kept.
  void restore_input(saved& state, matrix_view<T const> x) const {
    if (tensor_region.divides_rows()) return;
    routed.restore_input(state.routed, x);
    if (shared) shared->restore_input(state.shared, x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    auto inner = c.for_all_rows();
    routed.backward_weight(inner, state.routed);
    if (shared) shared->backward_weight(inner, state.shared);
    if (bias.has_gradient()) ops::add_bias_backward(c.stream, bias.gradient(), state.dy);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(routed, visit);
    if (shared) visit_parameters_of(*shared, visit);
    if (bias.is_present()) visit(bias);
  }
};

}  // namespace parallel::tensor
