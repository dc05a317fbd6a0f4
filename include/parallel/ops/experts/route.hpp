// route: chooses the experts of every row, and the weights of their results.
//
// With scores s = softmax(l) or sigmoid(l) of a row's E logits l, the k experts with the largest
// s + b are chosen (b: a bias that balances the experts' loads, or nothing; of equal ones the lower
// index). Without bias and groups logits are compared instead: they have the same order, and the
// choice then depends on no device's exponentials. The weights are w_c = a s_c / (Σ_j s_j^p)^(1/p)
// over the chosen experts, or a s_c without a norm p. Sources: Shazeer et al., 2017 (arXiv
// 1701.06538); MegaBlocks (2211.15841) for the norm; DeepSeek-V3 (2412.19437, section 2.1.2) for
// sigmoid, the bias, a, and groups: the experts form G equal groups, and only those of the g groups
// with the largest sums of their two best s + b can be chosen.
//
// Scores are computed in double from the logits and rounded to their type. A row's experts are in
// ascending order, so that the sum of their results has one order. What is compared and is not a
// number counts as the smallest; a score that is not a number gives weights that are not numbers.
// Cost: E exponentials a row.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// The scores of a row. identity is for exact rings; one is for an expert that every row uses.
enum class router_score : std::uint8_t { softmax, sigmoid, identity, one };

struct route_options {
  router_score score = router_score::softmax;
  double norm = 0.0;        ///< p; 0: weights are not divided
  double scale = 1.0;       ///< a
  index groups = 1;         ///< G
  index chosen_groups = 1;  ///< g
  /// Row r chooses the experts r k, r k + 1, ... modulo E instead, with the weights of the largest
  /// scores (MegaBlocks' uniform_expert_assignment, for measurements).
  bool uniform = false;
  std::uint64_t first_row = 0;  ///< the number of the first row in the global batch
};

/// A number of choices of a row that its loops keep in registers.
inline constexpr index largest_top_k = 64;

namespace detail {

/// The largest logit and the sum of exponentials relative to it.
struct softmax_terms {
  double largest = 0.0;
  double total = 0.0;

  template <class A>
  [[nodiscard]] PARALLELLM_HOST_DEVICE static softmax_terms from_row(A const* logits,
                                                                     index experts) {
    softmax_terms out{static_cast<double>(logits[0]), 0.0};
    for (index e = 1; e < experts; ++e)
      if (static_cast<double>(logits[e]) > out.largest)
        out.largest = static_cast<double>(logits[e]);
    for (index e = 0; e < experts; ++e)
      out.total += std::exp(static_cast<double>(logits[e]) - out.largest);
    return out;
  }
  /// log Σ exp(l).
  [[nodiscard]] PARALLELLM_HOST_DEVICE double log_sum() const { return largest + std::log(total); }
  [[nodiscard]] PARALLELLM_HOST_DEVICE double share(double logit) const {
    return std::exp(logit - largest) / total;
  }
};

/// The score of a logit among those of its row.
template <class A>
[[nodiscard]] PARALLELLM_HOST_DEVICE A score_of(A logit, softmax_terms const& terms,
                                                router_score kind) {
  if (kind == router_score::one) return A(1);
  if constexpr (std::is_integral_v<A>) {
    return logit;
  } else {
    auto const value = static_cast<double>(logit);
    if (kind == router_score::identity) return logit;
    if (kind == router_score::sigmoid) return static_cast<A>(1.0 / (1.0 + std::exp(-value)));
    return static_cast<A>(terms.share(value));
  }
}

/// Whether `a` of index i comes before `b` of index j among the largest; numbers that are none come
/// last.
template <class A>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool ranks_before(A a, index i, A b, index j) {
  if constexpr (!std::is_integral_v<A>) {
    bool const a_is_number = a == a;
    bool const b_is_number = b == b;
    if (a_is_number != b_is_number) return a_is_number;
    if (!a_is_number) return i < j;
  }
  return a > b || (a == b && i < j);
}

/// Writes the indices of the `count` largest of keys 0 to `size` - 1, largest first.
template <class Key, class Allowed>
PARALLELLM_HOST_DEVICE void largest_keys(std::int32_t* out, index count, index size, Key const& key,
                                         Allowed const& is_allowed) {
  for (index c = 0; c < count; ++c) {
    index best = -1;
    for (index i = 0; i < size; ++i) {
      if (!is_allowed(i)) continue;
      if (best >= 0 && !ranks_before(key(i), i, key(best), best)) continue;
      // chosen already: it comes before the last that was chosen, or is that one
      if (c > 0 && (i == out[c - 1] || ranks_before(key(i), i, key(out[c - 1]), index(out[c - 1]))))
        continue;
      best = i;
    }
    out[c] = static_cast<std::int32_t>(best);
  }
}

/// The scores, experts and weights of rows of E logits, K of whose experts are chosen.
template <class A>
struct routed_rows {
  A* scores;
  std::int32_t* experts;
  std::int32_t* scored;
  A* weights;
  A const* logits;
  A const* bias;       ///< null: none
  index expert_count;  ///< E
  index count;         ///< K
  route_options options;

  PARALLELLM_HOST_DEVICE void compute(index m) const {
    A const* const row = logits + m * expert_count;
    A* const row_scores = scores + m * expert_count;
    softmax_terms terms;
    if constexpr (!std::is_integral_v<A>)
      if (options.score == router_score::softmax)
        terms = softmax_terms::from_row(row, expert_count);
    for (index e = 0; e < expert_count; ++e) row_scores[e] = score_of(row[e], terms, options.score);
    std::int32_t chosen[largest_top_k] = {};
    choose(row, row_scores, chosen);
    double norm = 1.0;
    if constexpr (!std::is_integral_v<A>)
      if (options.norm > 0) {
        norm = 0.0;
        for (index c = 0; c < count; ++c)
          norm += std::pow(static_cast<double>(row_scores[chosen[c]]), options.norm);
        norm = std::pow(norm, 1.0 / options.norm);
      }
    for (index c = 0; c < count; ++c) {
      std::int32_t const expert = options.uniform ? uniform_expert(m, c) : chosen[c];
      index place = m * count + c;  // insertion: a row's experts are in ascending order
      for (; place > m * count && experts[place - 1] > expert; --place) {
        experts[place] = experts[place - 1];
        scored[place] = scored[place - 1];
        weights[place] = weights[place - 1];
      }
      experts[place] = expert;
      scored[place] = chosen[c];
      weights[place] = weight(row_scores[chosen[c]], norm);
    }
  }

 private:
  [[nodiscard]] PARALLELLM_HOST_DEVICE std::int32_t uniform_expert(index m, index c) const {
    std::uint64_t const choice =
        (options.first_row + static_cast<std::uint64_t>(m)) * static_cast<std::uint64_t>(count) +
        static_cast<std::uint64_t>(c);
    return static_cast<std::int32_t>(choice % static_cast<std::uint64_t>(expert_count));
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE A weight(A score, double norm) const {
    if constexpr (std::is_integral_v<A>)
      return score;
    else
      return static_cast<A>(options.scale * static_cast<double>(score) / norm);
  }
  PARALLELLM_HOST_DEVICE void choose(A const* row, A const* row_scores,
                                     std::int32_t* chosen) const {
    auto const key = [&](index e) -> A {
      if (bias == nullptr) return options.groups == 1 ? row[e] : row_scores[e];
      return static_cast<A>(row_scores[e] + bias[e]);
    };
    auto const any = [](index) { return true; };
    if (options.groups == 1) return largest_keys(chosen, count, expert_count, key, any);
    index const size = expert_count / options.groups;
    auto const group_key = [&](index group) -> A {
      std::int32_t best[2] = {};
      largest_keys(
          best, size < 2 ? size : 2, size, [&](index i) { return key(group * size + i); }, any);
      A const first = key(group * size + best[0]);
      return size < 2 ? first : static_cast<A>(first + key(group * size + best[1]));
    };
    std::int32_t groups[largest_top_k] = {};
    largest_keys(groups, options.chosen_groups, options.groups, group_key, any);
    largest_keys(chosen, count, expert_count, key, [&](index e) {
      for (index g = 0; g < options.chosen_groups; ++g)
        if (e / size == groups[g]) return true;
      return false;
    });
  }
};

/// The gradients of the logits of rows; see route_backward.
template <class T, class A>
struct routed_rows_backward {
  T* dlogits;
  A const* dweights;
  A const* logits;
  A const* scores;
  std::int32_t const* scored;
  A const* slopes;     ///< null: none
  A const* z_slopes;   ///< null: none
  index expert_count;  ///< E
  index count;         ///< K
  index set_rows;      ///< rows of a set of `slopes`
  index z_set_rows;    ///< rows of a set of `z_slopes`
  route_options options;

  PARALLELLM_HOST_DEVICE void compute(index m) const {
    A const* const slope = slopes == nullptr ? nullptr : slopes + m / set_rows * expert_count;
    T* const to = dlogits + m * expert_count;
    if constexpr (std::is_integral_v<A>) {
      for (index e = 0; e < expert_count; ++e)
        to[e] = static_cast<T>(score_gradient(m, e, 1, 0, slope));
    } else {
      A const* const row_scores = scores + m * expert_count;
      double norm = 1.0, shared = 0.0;
      if (options.norm > 0) {
        norm = 0.0;
        for (index c = m * count; c < (m + 1) * count; ++c) {
          auto const score = static_cast<double>(row_scores[scored[c]]);
          norm += std::pow(score, options.norm);
          shared += static_cast<double>(dweights[c]) * score;
        }
        shared /= std::pow(norm, 1.0 + 1.0 / options.norm);
        norm = std::pow(norm, 1.0 / options.norm);
      }
      double weighted = 0.0;
      if (options.score == router_score::softmax)
        for (index e = 0; e < expert_count; ++e)
          weighted +=
              static_cast<double>(row_scores[e]) * score_gradient(m, e, norm, shared, slope);
      double const z_slope =
          z_slopes == nullptr ? 0.0 : static_cast<double>(z_slopes[m / z_set_rows]);
      auto const terms = z_slope == 0.0
                             ? softmax_terms{}
                             : softmax_terms::from_row(logits + m * expert_count, expert_count);
      for (index e = 0; e < expert_count; ++e) {
        auto const score = static_cast<double>(row_scores[e]);
        double gradient = score_gradient(m, e, norm, shared, slope);
        if (options.score == router_score::softmax) gradient = score * (gradient - weighted);
        if (options.score == router_score::sigmoid) gradient *= score * (1.0 - score);
        if (options.score == router_score::one) gradient = 0.0;
        if (z_slope != 0.0)
          gradient += z_slope * 2.0 * terms.log_sum() *
                      terms.share(static_cast<double>(logits[m * expert_count + e]));
        to[e] = static_cast<T>(static_cast<A>(gradient));
      }
    }
  }

 private:
  using number = std::conditional_t<std::is_integral_v<A>, A, double>;

  /// The gradient of the score of expert e, through its weight and through the balancing loss.
  [[nodiscard]] PARALLELLM_HOST_DEVICE number score_gradient(index m, index e, number norm,
                                                             number shared, A const* slope) const {
    number gradient = slope == nullptr ? number(0) : number(slope[e]);
    for (index c = m * count; c < (m + 1) * count; ++c)
      if (scored[c] == e) {
        if constexpr (std::is_integral_v<A>)
          gradient += dweights[c];
        else
          gradient += options.scale *
                      (static_cast<double>(dweights[c]) / norm -
                       (options.norm > 0
                            ? shared * std::pow(static_cast<double>(scores[m * expert_count + e]),
                                                options.norm - 1.0)
                            : 0.0));
      }
    return gradient;
  }
};

}  // namespace detail

template <class A>
struct route_arguments {
  static constexpr char const* name = "route";
  matrix_view<A> scores;
  matrix_view<std::int32_t> experts;
  matrix_view<std::int32_t> scored;
  matrix_view<A> weights;
  matrix_view<A const> logits;
  vector_view<A const> bias;
  route_options options;

  [[nodiscard]] auto operands() const {
    return std::tuple(scores, experts, scored, weights, logits, bias);
  }
  /// Per logit: difference, exp, sum and quotient; per weight: power, sum and quotient.
  [[nodiscard]] std::uint64_t flops() const {
    return 4 * static_cast<std::uint64_t>(logits.size()) +
           (options.norm > 0 ? 3 : 0) * static_cast<std::uint64_t>(weights.size());
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  [[nodiscard]] detail::routed_rows<A> rows() const {
    return {scores.data(),    experts.data(),    scored.data(),
            weights.data(),   logits.data(),     bias.empty() ? nullptr : bias.data(),
            logits.extent(1), experts.extent(1), options};
  }
  void compute(index m) const { rows().compute(m); }
};

template <class T, class A>
struct route_backward_arguments {
  static constexpr char const* name = "route_backward";
  matrix_view<T> dlogits;
  matrix_view<A const> dweights;
  matrix_view<A const> logits;
  matrix_view<A const> scores;
  matrix_view<std::int32_t const> scored;
  matrix_view<A const> slopes;
  vector_view<A const> z_slopes;
  route_options options;

  [[nodiscard]] auto operands() const {
    return std::tuple(dlogits, dweights, logits, scores, scored, slopes, z_slopes);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return 10 * static_cast<std::uint64_t>(logits.size());
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  /// The rows of a set are consecutive, and all sets have as many.
  [[nodiscard]] detail::routed_rows_backward<T, A> rows() const {
    index const rows = logits.extent(0);
    return {.dlogits = dlogits.data(),
            .dweights = dweights.data(),
            .logits = logits.data(),
            .scores = scores.data(),
            .scored = scored.data(),
            .slopes = slopes.empty() ? nullptr : slopes.data(),
            .z_slopes = z_slopes.empty() ? nullptr : z_slopes.data(),
            .expert_count = logits.extent(1),
            .count = scored.extent(1),
            .set_rows = slopes.empty() ? rows : rows / slopes.extent(0),
            .z_set_rows = z_slopes.empty() ? rows : rows / z_slopes.extent(0),
            .options = options};
  }
  void compute(index m) const { rows().compute(m); }
};

namespace detail {

/// Throws `error` unless a row can choose `chosen` of `experts` experts by these options.
inline void check_route(std::string_view name, index experts, index chosen,
                        route_options const& options) {
  require(chosen >= 1 && chosen <= experts && chosen <= largest_top_k, "ops::", name, ": ", chosen,
          " experts of a row are to be chosen from ", experts, "; choose 1 to ",
          std::min(experts, largest_top_k));
  require(options.groups >= 1 && experts % options.groups == 0 && options.chosen_groups >= 1 &&
              options.chosen_groups <= std::min(options.groups, largest_top_k) &&
              chosen <= experts / options.groups * options.chosen_groups,
          "ops::", name, ": ", chosen, " of ", experts, " experts cannot be chosen from ",
          options.chosen_groups, " of ", options.groups, " groups of equal size");
}

}  // namespace detail

/// route(s, scores, experts, scored, weights, logits, bias, options): scores [M,E]; experts [M,K],
/// the experts of each row in ascending order; weights [M,K]; scored [M,K], the experts of whose
/// scores those are the weights, which may be the same view as `experts` unless options.uniform;
/// logits [M,E]; bias [E], or empty.
inline constexpr auto route =
    []<class Stream, class A, class L>(
        Stream& s, matrix_view<A> scores, matrix_view<std::int32_t> experts,
        matrix_view<std::int32_t> scored, matrix_view<A> weights, matrix_view<L> logits,
        std::type_identity_t<vector_view<A const>> bias = {}, route_options options = {}) {
      detail::check_route("route", logits.extent(1), experts.extent(1), options);
      detail::require_equal("route", "the number of rows of experts", experts.extent(0),
                            "that of logits", logits.extent(0));
      require(scores.extents() == logits.extents(),
              "ops::route: scores and logits have different extents");
      require(scored.extents() == experts.extents() && weights.extents() == experts.extents(),
              "ops::route: experts and their weights have different extents");
      if (!bias.empty())
        detail::require_equal("route", "the number of biases", bias.extent(0), "that of experts",
                              logits.extent(1));
      run_operation(s, route_arguments<A>{scores, experts, scored, weights,
                                          matrix_view<A const>(logits), bias, options});
    };

/// route_backward(s, dlogits, dweights, logits, scores, scored, slopes, z_slopes, options): dlogits
/// [M,E] from dweights [M,K]; `slopes` [sets,E] is the derivative of a balancing loss by each score
/// of a set's rows (M / sets consecutive ones), or empty; `z_slopes` [sets] is that by the square
/// of log Σ exp(l) of each of a set's rows (ST-MoE's z-loss, Zoph et al., 2022, arXiv 2202.08906,
/// eq. 5), or empty.
inline constexpr auto route_backward =
    []<class Stream, class T, class DW, class L>(
        Stream& s, matrix_view<T> dlogits, matrix_view<DW> dweights, matrix_view<L> logits,
        std::type_identity_t<matrix_view<std::remove_const_t<L> const>> scores,
        matrix_view<std::int32_t const> scored,
        std::type_identity_t<matrix_view<std::remove_const_t<L> const>> slopes,
        std::type_identity_t<vector_view<std::remove_const_t<L> const>> z_slopes,
        route_options options) {
      using A = std::remove_const_t<L>;
      detail::check_route("route_backward", logits.extent(1), scored.extent(1), options);
      require(dlogits.extents() == logits.extents() && scores.extents() == logits.extents(),
              "ops::route_backward: logits, scores and the gradient have different extents");
      require(dweights.extents() == scored.extents() && scored.extent(0) == logits.extent(0),
              "ops::route_backward: experts and the gradients of their weights have different "
              "extents");
      require(slopes.empty() || logits.extent(0) % slopes.extent(0) == 0,
              "ops::route_backward: ", logits.extent(0), " rows are not divided equally by ",
              slopes.extent(0), " sets");
      require(z_slopes.empty() || logits.extent(0) % z_slopes.extent(0) == 0,
              "ops::route_backward: ", logits.extent(0), " rows are not divided equally by ",
              z_slopes.extent(0), " sets of the z-loss");
      if (!slopes.empty())
        detail::require_equal("route_backward", "the number of columns of slopes", slopes.extent(1),
                              "that of logits", logits.extent(1));
      run_operation(s, route_backward_arguments<T, A>{dlogits, matrix_view<A const>(dweights),
                                                      matrix_view<A const>(logits), scores, scored,
                                                      slopes, z_slopes, options});
    };

}  // namespace parallel::ops
