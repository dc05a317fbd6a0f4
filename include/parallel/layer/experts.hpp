// experts: feed-forward layers of which each row uses the few that a router chooses for it:
//   y = Σ_e w_e down_e(f(up_e(x)))  or  Σ_e w_e down_e(f(gate_e(x)) ∘ up_e(x))
// (Shazeer et al., 2017, arXiv 1701.06538). Without a capacity no choice is dropped, and memory
// does not depend on the choices: top_k copies of every row (MegaBlocks, Gale et al., 2022).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/layer/router.hpp>
#include <parallel/ops/experts/expert_order.hpp>
#include <parallel/ops/experts/expert_rows.hpp>
#include <parallel/ops/experts/grouped_matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// The ranks among which experts and rows are divided: here all are on one rank.
struct single_expert_rank {
  /// Adds counts over the ranks that hold other rows of the same sequences.
  template <class Stream, class A>
  void add_over_rows(Stream&, std::span<A>) const {}

  /// The number of ranks, each of which has an equal part of the experts.
  [[nodiscard]] int size() const { return 1; }
  /// Copies of this rank's rows for which there is room on each rank.
  [[nodiscard]] index block_rows(index rows, index top_k, index /*experts*/) const {
    return rows * top_k;
  }
  /// Sends each rank its block of `in`, and fills `out` with the blocks that they send.
  template <class Stream, class T>
  void exchange(Stream&, std::span<T> /*out*/, std::span<T const> /*in*/) const {}
};

/// `Activation`: an element-wise layer without parameters. The weights of an expert e are rows
/// [e h, (e + 1) h) of each matrix, for h hidden units. For each copy of a row it keeps 2 d + 2 h
/// numbers, 3 h with a gate.
template <class Activation, class Ranks = single_expert_rank>
struct experts {
  using element = typename Activation::element;
  using T = element;
  using A = accumulate_t<T>;

  router<T> choose;
  parameter<T, 2> up;    ///< [local experts h, width]
  parameter<T, 2> gate;  ///< [local experts h, width], or absent
  parameter<T, 2> down;  ///< [local experts h, width]: an expert's matrix is stored [in, out]
  Activation activate;
  Ranks ranks;
  /// Rows of a sequence that an expert takes, as a multiple of the mean; 0: all.
  double capacity_factor = 0.0;

  struct saved {
    typename router<T>::saved choices;
    matrix_view<std::int32_t> places;  ///< [rows, top_k], in blocks for the ranks
    matrix_view<std::int32_t> ends;    ///< [ranks, local experts], of the blocks from the ranks
    vector_view<std::int32_t> lost;    ///< [2], as ops::expert_order has it
    typename Activation::saved activate;
    matrix_view<T const> rows;              ///< [copies, width], the input by rank and expert
    matrix_view<T const> activation_input;  ///< [copies, h]: up, or gate with a gate
    matrix_view<T const> factor;            ///< up with a gate
    matrix_view<T const> hidden;            ///< the input of down
    matrix_view<T const> results;           ///< [copies, width], on the rank of the rows
    matrix_view<T const> d_results, d_activation_input, d_factor;  ///< the gradients of those
  };

  /// `summand`, if any, is added to the result.
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    choose.forward(c, x, state.choices,
                   [this](auto& stream, auto counts) { ranks.add_over_rows(stream, counts); });
    auto const y = c.template allocate<T, 2>(x.extents());
    send_rows(c, x, state);
    state.factor = product(c, state.rows, up, state);
    state.activation_input = state.factor;
    if (is_gated()) state.activation_input = product(c, state.rows, gate, state);
    auto const hidden = activate.forward(c, state.activation_input, state.activate);
    if (is_gated()) ops::multiply(c.stream, hidden.span(), state.factor.span());
    state.hidden = hidden;
    state.results = exchanged<T>(c, state.rows.extents(), [&](matrix_view<T> results) {
      ops::grouped_matmul(c.stream, results, state.hidden, down.value(), state.ends);
    });
    ops::combine_rows(c.stream, y, state.results, state.places, state.choices.weights, summand);
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    auto const dx = c.template allocate<T, 2>(dy.extents());
    auto const dweights = c.template allocate<A, 2>(state.places.extents());
    state.d_results = exchanged<T>(c, state.rows.extents(), [&](matrix_view<T> d_results) {
      ops::combine_rows_backward(c.stream, d_results, dweights, dy, state.results, state.places,
                                 state.choices.weights);
    });
    auto const d_hidden = product(c, state.d_results, down, state);
    if (is_gated())
      state.d_factor = gated_backward(c, activate, state.activation_input, state.factor, d_hidden);
    state.d_activation_input = activate.backward_input(c, d_hidden, state.activate);
    auto const d_rows = exchanged<T>(c, state.rows.extents(), [&](matrix_view<T> gradient) {
      if (is_gated())
        ops::grouped_matmul(c.stream, gradient, state.d_factor, up.value(), state.ends);
      ops::grouped_matmul(c.stream, gradient, state.d_activation_input,
                          is_gated() ? gate.value() : up.value(), state.ends,
                          {.accumulate = is_gated()});
    });
    auto const routed = choose.backward_input(c, dweights, state.choices);
    choose.record(c, state.choices, state.lost);
    if (!routed.empty() && !summand.empty()) ops::add(c.stream, routed.span(), summand.span());
    ops::combine_rows(c.stream, dx, d_rows, state.places, {}, routed.empty() ? summand : routed);
    return dx;
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const { state.choices.x = x; }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    add_gradient(c, down, state.hidden, state.d_results, state);
    add_gradient(c, is_gated() ? gate : up, state.d_activation_input, state.rows, state);
    if (is_gated()) add_gradient(c, up, state.d_factor, state.rows, state);
    choose.backward_weight(c, state.choices);
  }

  /// The router's parameters, and the experts' unless ranks divide them: those are a unit of their
  /// own, divided_parameters().
  void visit_parameters(auto&& visit) {
    choose.visit_parameters(visit);
    if (up.expert_ranks == 1) visit_experts(visit);
  }

  /// The experts' parameters as a layer, where ranks divide them.
  struct divided {
    experts* layer;
    void visit_parameters(auto&& visit) { layer->visit_experts(visit); }
  };
  [[nodiscard]] divided divided_parameters() { return {this}; }

 private:
  void visit_experts(auto&& visit) {
    for (auto* weights : {&up, &gate, &down}) {
      if (!weights->is_present()) continue;
      weights->replaces_gradient = true;
      visit(*weights);
    }
  }

  [[nodiscard]] bool is_gated() const { return gate.is_present(); }

  /// The experts whose weights this rank has.
  [[nodiscard]] index local_experts() const { return choose.expert_count() / ranks.size(); }

  /// Copies the rows of x to the experts that they have chosen, on whichever rank.
  template <class Stream>
  void send_rows(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    index const block = ranks.block_rows(x.extent(0), choose.top_k, choose.expert_count());
    state.places = c.template allocate<std::int32_t, 2>({x.extent(0), choose.top_k});
    state.lost = c.template allocate<std::int32_t, 1>({2});
    state.ends = exchanged<std::int32_t>(c, {ranks.size(), local_experts()}, [&](auto ends) {
      ops::expert_order(c.stream, state.places, ends, state.lost, state.choices.experts,
                        {.block_rows = block, .sequence = c.sequence, .capacity = capacity(c)});
    });
    state.rows = exchanged<T>(c, {ranks.size() * block, x.extent(1)}, [&](auto rows) {
      ops::scatter_rows(c.stream, rows, x, state.places);
    });
  }

  /// What the ranks have computed for this one: compute(matrix) writes what this one has for them,
  /// an equal block of rows for each.
  template <class U, class Stream, class Compute>
  [[nodiscard]] matrix_view<U> exchanged(context<Stream>& c, shape<2> extents,
                                         Compute const& compute) const {
    auto const received = c.template allocate<U, 2>(extents);
    if (ranks.size() == 1) {
      compute(received);
      return received;
    }
    arena::scope const temporaries(c.memory);
    auto const sent = c.template allocate<U, 2>(extents);
    compute(sent);
    ranks.exchange(c.stream, received.span(), std::span<U const>(sent.span()));
    return received;
  }

  /// The rows of one sequence that an expert takes; 0: all.
  template <class Stream>
  [[nodiscard]] index capacity(context<Stream> const& c) const {
    double const mean =
        static_cast<double>(c.sequence * choose.top_k) / static_cast<double>(choose.expert_count());
    return capacity_factor == 0.0 ? 0
                                  : std::max<index>(1, static_cast<index>(capacity_factor * mean));
  }

  /// x weightsᵀ by expert.
  template <class Stream>
  [[nodiscard]] matrix_view<T> product(context<Stream>& c, matrix_view<T const> x,
                                       parameter<T, 2> const& weights, saved const& state) const {
    auto const y = c.template allocate<T, 2>({x.extent(0), weights.extents[0] / local_experts()});
    ops::grouped_matmul(c.stream, y, x, weights.value(), state.ends, {.transpose_b = true});
    return y;
  }

  template <class Stream>
  void add_gradient(context<Stream>& c, parameter<T, 2> const& weights, matrix_view<T const> a,
                    matrix_view<T const> b, saved const& state) const {
    if (!weights.has_gradient()) return;
    index const sums = weights.source_stride > 0 ? ranks.size() : 1;  // of equal blocks of rows
    auto const part = [sums](auto view, index k) {
      index const rows = view.extent(0) / sums;
      return view.slice(k * rows, (k + 1) * rows);
    };
    for (index k = 0; k < sums; ++k)
      ops::grouped_matmul_weight(c.stream, weights.gradient(k), part(a, k), part(b, k),
                                 part(matrix_view<std::int32_t const>(state.ends), k),
                                 !c.overwrites(weights));
  }
};

}  // namespace parallel
