// router: chooses the experts of each row, with the losses that balance their loads.
//
// A balancing loss is E Σ_e f_e P_e, where f_e is the share of the choices of a set of rows that
// are expert e, and P_e the mean of its scores there (Fedus, Zoph, Shazeer, 2021, arXiv 2101.03961,
// eq. 4; MegaBlocks divides the shares by top_k as here, transformers does not). The set belongs to
// the definition, and not to the layout: a sequence, the microbatch, or the global batch. f has no
// gradient. A set counts as many times as it has tokens with a loss, as its cross entropy does: all
// losses are sums until the optimizer divides. Over the global batch, f is the share in the choices
// of the batch before, which all ranks know as a parameter, and 1 / E in the first step; P is the
// mean over sequences (Qiu et al., 2025, arXiv 2501.11873, who take f of the microbatches that a
// step has computed so far, which depends on how many there are). The z-loss is the mean of (log
// Σ_e exp(l_e))² over rows (Zoph et al., 2022, arXiv 2202.08906, eq. 5), and counts likewise.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/layer/concepts.hpp>
#include <parallel/layer/router_losses.hpp>
#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/jitter.hpp>
#include <parallel/ops/experts/load_shares.hpp>
#include <parallel/ops/experts/record_routing.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel {

template <class T>
struct router {
  using element = T;
  using A = accumulate_t<T>;

  parameter<T, 2> weight;  ///< [experts, width]; absent: all rows use the only expert, unweighted
  /// [experts], or absent: added to the scores where experts are chosen, and to no weight. Its
  /// gradient is E times an expert's choices less all choices, times count_gradient_scale.
  parameter<T, 1> bias;
  /// [experts], or absent: the choices of the batch before, for balance_set::global_batch. Its
  /// gradient is the choices of this one times count_gradient_scale
  /// (optim/gradient_assignment.hpp).
  parameter<T, 1> loads;
  index top_k = 1;
  ops::route_options route;
  router_losses losses;
  float jitter = 0.0F;                 ///< eps of ops::jitter on the input in training
  std::uint32_t jitter_operation = 0;  ///< stream_id of a name unique in the model
  index layer = 0;                     ///< the number of this router among those of the model
  /// Whether this rank's gradients include those of the losses, and whether it reports: one rank of
  /// those that route the same rows does so.
  bool adds_losses = true;

  struct saved {
    matrix_view<T const> x;                     ///< [rows, width]
    matrix_view<A> logits, scores;              ///< [rows, experts]
    matrix_view<std::int32_t> experts, scored;  ///< [rows, top_k], as ops::route has them
    matrix_view<A> weights;                     ///< [rows, top_k]
    matrix_view<A> slopes;    ///< [sets, experts], of the balancing loss, by score; or empty
    vector_view<A> z_slopes;  ///< [sequences], of the z-loss; or empty
    matrix_view<A> counts;    ///< [layers, experts], of all routers whose losses are joined
    matrix_view<T> dlogits;   ///< [rows, experts]
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
      arena::scope const temporaries(c.memory);
      ops::router_logits(c.stream, state.logits, jittered(c, x), weight.value());
    } else {
      ops::fill(c.stream, state.logits.span(), A(0));
      options.score = ops::router_score::one;
    }
    choose(c, state, options);
    if (losses.joins_layers && !state.counts.empty())
      count_choices(c, state, state.counts.slice(layer, layer + 1), add_over_ranks);
    else if (losses.balance != 0.0)
      find_slopes(c, state, add_over_ranks);
    if (losses.z != 0.0) find_z_slopes(c, state);
  }

  /// The gradient of x, from that of the weights [rows, top_k]; empty where no weight is learned.
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<A const> dweights,
                                              saved& state) const {
    if (!weight.is_present()) return {};
    index const rows = state.x.extent(0);
    state.dlogits = c.template allocate<T, 2>({rows, expert_count()});
    auto const dx = c.template allocate<T, 2>(state.x.extents());
    if (losses.joins_layers && !state.counts.empty()) join_slopes(c, state);
    auto const slopes = adds_losses ? state.slopes : matrix_view<A>{};
    auto const z_slopes = adds_losses ? state.z_slopes : vector_view<A>{};
    ops::route_backward(c.stream, state.dlogits, dweights, state.logits, state.scores, state.scored,
                        slopes, z_slopes, route);
    ops::matmul(c.stream, dx, matrix_view<T const>(state.dlogits), weight.value());
    if (has_jitter(c)) add_jitter(c, dx, dx);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    add_counts(c, state);
    if (!weight.has_gradient()) return;
    arena::scope const temporaries(c.memory);
    ops::matmul(c.stream, weight.gradient(), matrix_view<T const>(state.dlogits),
                jittered(c, state.x), {.transpose_a = true, .accumulate = !c.overwrites(weight)});
  }

  /// Adds what this router reports of a microbatch to the context's record.
  template <class Stream>
  void record(context<Stream>& c, saved const& state, vector_view<std::int32_t const> lost) const {
    if (c.record.empty() || !adds_losses || !weight.is_present()) return;
    auto const size = static_cast<std::size_t>(ops::routing_record_size(expert_count()));
    ops::record_routing(c.stream, c.record.subspan(static_cast<std::size_t>(layer) * size, size),
                        state.logits, state.scores, matrix_view<std::int32_t const>(state.experts),
                        state.slopes, state.z_slopes, lost);
  }

  void visit_parameters(auto&& visit) {
    if (!weight.is_present()) return;
    weight.replaces_gradient = true;
    visit(weight);
    if (bias.is_present()) visit(bias);
    if (loads.is_present()) visit(loads);
  }

 private:
  template <class Stream>
  void choose(context<Stream>& c, saved& state, ops::route_options options) const {
    vector_view<A const> added;
    if constexpr (!std::is_integral_v<A>)
      if (bias.is_present()) {
        auto const wide = c.template allocate<A, 1>({expert_count()});
        ops::cast(c.stream, wide.span(), bias.value().span());
        added = wide;
      }
    auto const choose_rows = [&](index begin, index end) {
      ops::route(c.stream, state.scores.slice(begin, end), state.experts.slice(begin, end),
                 state.scored.slice(begin, end), state.weights.slice(begin, end),
                 state.logits.slice(begin, end), added, options);
    };
    index const rows = state.logits.extent(0);
    if (!options.uniform) return choose_rows(0, rows);
    c.for_each_span(rows, [&](index row, index count, std::uint64_t global_row) {
      options.first_row = global_row;
      choose_rows(row, row + count);
    });
  }

  /// Adds this microbatch's counts, or zeros where another rank adds them, to the gradients of the
  /// bias and the loads: as gradients, counts of the whole batch reach every rank. An optimizer
  /// that moves the bias against the sign of its gradient balances the experts without a loss (Wang
  /// et al., 2024, arXiv 2408.15664).
  template <class Stream>
  void add_counts(context<Stream>& c, saved const& state) const {
    if (!bias.has_gradient() && !loads.has_gradient()) return;
    arena::scope const temporaries(c.memory);
    auto const counts = c.template allocate<A, 2>({1, expert_count()});
    auto const all = c.template allocate<A, 1>({expert_count()});
    ops::choice_counts(c.stream, counts, matrix_view<std::int32_t const>(state.experts));
    auto const add_to = [&](parameter<T, 1> const& target) {
      ops::add(c.stream, target.gradient().span(), std::span<A const>(counts.span()));
    };
    double const unit = !adds_losses ? 0.0 : std::is_integral_v<A> ? 1.0 : count_gradient_scale;
    ops::scale(c.stream, counts.span(), static_cast<A>(unit));
    if (loads.has_gradient()) add_to(loads);
    if (!bias.has_gradient()) return;
    if constexpr (!std::is_integral_v<A>) {
      auto const choices = static_cast<double>(state.experts.size());
      ops::fill(c.stream, all.span(), static_cast<A>(-choices * unit));
      ops::scale(c.stream, counts.span(), static_cast<A>(expert_count()));
      ops::add(c.stream, counts.span(), std::span<A const>(all.span()));
    }
    add_to(bias);
  }

  template <class Stream>
  [[nodiscard]] bool has_jitter(context<Stream> const& c) const {
    return jitter > 0.0F && c.mode == pass::training;
  }

  /// y = x with noise; y may be x.
  template <class Stream>
  void add_jitter(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x) const {
    auto const width = static_cast<std::uint64_t>(x.extent(1));
    c.for_each_span(x.extent(0), [&](index row, index count, std::uint64_t global_row) {
      ops::jitter(c.stream, y.slice(row, row + count).span(), x.slice(row, row + count).span(),
                  {.eps = jitter,
                   .random = c.random(jitter_operation),
                   .first_element = global_row * width});
    });
  }

  /// The rows that the weight multiplies: x, or a copy with noise.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> jittered(context<Stream>& c, matrix_view<T const> x) const {
    if (!has_jitter(c)) return x;
    auto const y = c.template allocate<T, 2>(x.extents());
    add_jitter(c, y, x);
    return y;
  }

  /// Counts the choices of each set, on all ranks.
  template <class Stream, class AddOverRanks>
  void count_choices(context<Stream>& c, saved& state, matrix_view<A> counts,
                     AddOverRanks const& add_over_ranks) const {
    ops::choice_counts(c.stream, counts, matrix_view<std::int32_t const>(state.experts));
    add_over_ranks(c.stream, counts.span());
  }

  /// The derivatives of the balancing loss by the scores of each set's rows.
  template <class Stream, class AddOverRanks>
  void find_slopes(context<Stream>& c, saved& state, AddOverRanks const& add_over_ranks) const {
    index const sequences = state.x.extent(0) / c.sequence;
    index const sets = losses.set == balance_set::microbatch ? 1 : sequences;
    bool const knows_loads = losses.set == balance_set::global_batch;
    state.slopes = c.template allocate<A, 2>({sets, expert_count()});
    if (!knows_loads) count_choices(c, state, state.slopes, add_over_ranks);
    for (index set = 0; set < sets; ++set) {
      auto const slopes = state.slopes.slice(set, set + 1).span();
      index const begin = set * sequences / sets, end = (set + 1) * sequences / sets;
      if (knows_loads)
        ops::load_shares(c.stream, slopes, loads.value().span(), slope_factor(c, begin, end, 1));
      else
        ops::scale(c.stream, slopes,
                   slope_factor(c, begin, end, rows_of_set(c, begin, end) * top_k));
    }
  }

  /// The same from the counts of all layers' routers.
  template <class Stream>
  void join_slopes(context<Stream>& c, saved& state) const {
    index const layers = state.counts.extent(0);
    state.slopes = c.template allocate<A, 2>({1, expert_count()});
    ops::copy(c.stream, state.slopes.span(), std::span<A const>(state.counts.slice(0, 1).span()));
    for (index i = 1; i < layers; ++i)
      ops::add(c.stream, state.slopes.span(),
               std::span<A const>(state.counts.slice(i, i + 1).span()));
    index const sequences = state.x.extent(0) / c.sequence;
    ops::scale(c.stream, state.slopes.span(),
               slope_factor(c, 0, sequences, rows_of_set(c, 0, sequences) * layers * layers));
  }

  /// The rows, on all ranks, of sequences [begin, end) of the microbatch.
  template <class Stream>
  [[nodiscard]] static index rows_of_set(context<Stream> const& c, index begin, index end) {
    return (end - begin) * c.whole_sequence();
  }

  /// balance E tokens / (rows divisor) for a set of sequences [begin, end) of the microbatch, which
  /// counts once for each of its tokens: the factor of an expert's share times the divisor.
  template <class Stream>
  [[nodiscard]] A slope_factor(context<Stream> const& c, index begin, index end,
                               index divisor) const {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(losses.balance);
    } else {
      double tokens = 0.0;
      for (index i = begin; i < end; ++i) tokens += static_cast<double>(c.tokens_of_sequence(i));
      auto const rows = static_cast<double>(rows_of_set(c, begin, end));
      return static_cast<A>(losses.balance * static_cast<double>(expert_count()) * tokens /
                            (rows * static_cast<double>(divisor)));
    }
  }

  /// The derivatives of the z-loss by the squares of each sequence's rows.
  template <class Stream>
  void find_z_slopes(context<Stream>& c, saved& state) const {
    index const sequences = state.x.extent(0) / c.sequence;
    state.z_slopes = c.template allocate<A, 1>({sequences});
    for (index i = 0; i < sequences; ++i)
      ops::fill(c.stream, state.z_slopes.span().subspan(static_cast<std::size_t>(i), 1),
                static_cast<A>(losses.z * static_cast<double>(c.tokens_of_sequence(i)) /
                               static_cast<double>(c.whole_sequence())));
  }
};

}  // namespace parallel
