// router: chooses the experts of each row, with the losses that balance their loads.
//
// A balancing loss is E Σ_e f_e P_e, where f_e is the share of the choices of a set of rows that
// are expert e, and P_e the mean of its scores there (Fedus, Zoph, Shazeer, 2021, arXiv 2101.03961,
// eq. 4; MegaBlocks divides the shares by top_k as here, transformers does not). The set belongs to
// the definition, and not to the layout: a sequence, or the microbatch. f has no gradient. A set
// counts as many times as it has tokens with a loss, as its cross entropy does: all losses are sums
// until the optimizer divides. The z-loss is the mean of (log Σ_e exp(l_e))² over rows (Zoph et
// al., 2022, arXiv 2202.08906, eq. 5), and counts likewise.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/layer/concepts.hpp>
#include <parallel/layer/router_losses.hpp>
#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel {

template <class T>
struct router {
  using element = T;
  using A = accumulate_t<T>;

  parameter<T, 2> weight;  ///< [experts, width]; absent: all rows use the only expert, unweighted
  index top_k = 1;
  ops::route_options route;
  router_losses losses;
  /// Whether this rank's gradients include those of the losses: one rank of those that route the
  /// same rows does so.
  bool adds_losses = true;

  struct saved {
    matrix_view<T const> x;                     ///< [rows, width]
    matrix_view<A> logits, scores;              ///< [rows, experts]
    matrix_view<std::int32_t> experts, scored;  ///< [rows, top_k], as ops::route has them
    matrix_view<A> weights;                     ///< [rows, top_k]
    matrix_view<A> slopes;   ///< [sets, experts], of the balancing loss, by score; or empty
    matrix_view<T> dlogits;  ///< [rows, experts]
  };

  [[nodiscard]] index expert_count() const { return weight.is_present() ? weight.extents[0] : 1; }

  /// Chooses the experts of all rows of x. add_over_ranks(c.stream, span) adds counts over the
  /// ranks that hold other rows of the same sequences.
  template <class Stream, class AddOverRanks>
  void forward(context<Stream>& c, matrix_view<T const> x, saved& state,
               AddOverRanks const& add_over_ranks) const {
    index const rows = x.extent(0);
    state.x = x;
    state.logits = c.template allocate<A, 2>({rows, expert_count()});
    state.scores = c.template allocate<A, 2>({rows, expert_count()});
    state.experts = c.template allocate<std::int32_t, 2>({rows, top_k});
    state.scored =
        route.uniform ? c.template allocate<std::int32_t, 2>({rows, top_k}) : state.experts;
    state.weights = c.template allocate<A, 2>({rows, top_k});
    auto options = route;
    if (weight.is_present()) {
      ops::router_logits(c.stream, state.logits, x, weight.value());
    } else {
      ops::fill(c.stream, state.logits.span(), A(0));
      options.score = ops::router_score::one;
    }
    options.first_row = c.run_position.first_sequence * static_cast<std::uint64_t>(c.sequence);
    ops::route(c.stream, state.scores, state.experts, state.scored, state.weights, state.logits, {},
               options);
    if (losses.balance != 0.0) find_slopes(c, state, add_over_ranks);
  }

  /// The gradient of x, from that of the weights [rows, top_k]; empty where no weight is learned.
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<A const> dweights,
                                              saved& state) const {
    if (!weight.is_present()) return {};
    index const rows = state.x.extent(0);
    state.dlogits = c.template allocate<T, 2>({rows, expert_count()});
    auto const dx = c.template allocate<T, 2>(state.x.extents());
    auto const slopes = adds_losses ? state.slopes : matrix_view<A>{};
    double const z_slope = adds_losses ? losses.z : 0.0;
    ops::route_backward(c.stream, state.dlogits, dweights, state.logits, state.scores, state.scored,
                        slopes, z_slope, route);
    ops::matmul(c.stream, dx, matrix_view<T const>(state.dlogits), weight.value());
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (weight.has_gradient())
      ops::matmul(c.stream, weight.gradient(), matrix_view<T const>(state.dlogits), state.x,
                  {.transpose_a = true, .accumulate = !c.overwrites(weight)});
  }

  void visit_parameters(auto&& visit) {
    if (!weight.is_present()) return;
    weight.replaces_gradient = true;
    visit(weight);
  }

 private:
  /// The derivatives of the balancing loss by the scores of each set's rows.
  template <class Stream, class AddOverRanks>
  void find_slopes(context<Stream>& c, saved& state, AddOverRanks const& add_over_ranks) const {
    index const rows = state.x.extent(0);
    index const sets = losses.set == balance_set::sequence ? rows / c.sequence : 1;
    state.slopes = c.template allocate<A, 2>({sets, expert_count()});
    ops::choice_counts(c.stream, state.slopes, matrix_view<std::int32_t const>(state.experts));
    add_over_ranks(c.stream, state.slopes.span());
    ops::scale(c.stream, state.slopes.span(),
               slope_factor(rows / sets * c.whole_sequence() / c.sequence));
  }
  /// balance E / (rows top_k) for a set of that many rows, which counts once for each row.
  [[nodiscard]] A slope_factor(index rows) const {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(losses.balance);
    else
      return static_cast<A>(losses.balance * static_cast<double>(expert_count()) /
                            static_cast<double>(rows * top_k));
  }
};

}  // namespace parallel
