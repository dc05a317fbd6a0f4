// attention in plain loops, one query of one head at a time: the equations without optimisations.
//
// Everything is computed and summed in accumulate_t<T>. Scratch: one row of scores; in the backward
// pass the gradients of the keys and values of one head.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <parallel/ops/attention/attention_options.hpp>

namespace parallel::ops {

template <class T, bool Extends>
struct basic_attention_backward_arguments;

}  // namespace parallel::ops

namespace parallel::ops::detail {

/// The elements of results: of T, or accumulated over parts of the keys.
template <class T, bool Extends>
using attention_result_t = std::conditional_t<Extends, accumulate_t<T>, T>;

/// One query of one head: the values that its loops over the keys [first, end) that it sees need.
template <class T>
struct attention_row {
  using A = accumulate_t<T>;
  heads_view<T const> q, k, v;
  attention_options const& options;
  index b, h, i;
  positioned_attention positioned{options, q.sequence, k.sequence};
  index kv = h / (q.heads / k.heads);
  index position = positioned.query_position(i);
  index first = positioned.first_key(b, i);
  index end = positioned.end_key(i + 1);
  std::uint64_t pair = positioned.first_pair(b, h, q.heads) +
                       static_cast<std::uint64_t>(position) *
                           static_cast<std::uint64_t>(positioned.positions.sequence_length);

  [[nodiscard]] A dot(T const* x, T const* y) const {
    A total = 0;
    for (index d = 0; d < q.head_dim; ++d) total += static_cast<A>(x[d]) * static_cast<A>(y[d]);
    return total;
  }

  [[nodiscard]] A scaled(index j) const {
    return dot(q.row(b, i, h), k.row(b, j, kv)) * static_cast<A>(options.scale);
  }

  [[nodiscard]] A score(index j) const {
    A total = scaled(j);
    if (auto const cap = static_cast<A>(options.softcap); cap > 0)
      total = cap * std::tanh(total / cap);
    if (!options.alibi_slopes.empty())
      total -= static_cast<A>(options.alibi_slopes[static_cast<std::size_t>(h)]) *
               static_cast<A>(position - j);
    return total;
  }

  /// The derivative of the score by q·k.
  [[nodiscard]] A derivative(index j) const {
    auto const slope = static_cast<A>(options.scale);
    auto const cap = static_cast<A>(options.softcap);
    if (cap == 0) return slope;
    A const t = std::tanh(scaled(j) / cap);
    return slope * (1 - t * t);
  }

  /// The factor by which dropout multiplies probability j: 0 or 1 / (1 - p).
  [[nodiscard]] A factor(index j) const {
    float const p = options.dropout.probability;
    if (p == 0.0F) return 1;
    bool const is_kept = options.dropout.random.uniform(pair + static_cast<std::uint64_t>(j)) >= p;
    return is_kept ? 1 / (1 - static_cast<A>(p)) : A(0);
  }
};

/// out and lse of one head, which is counted through the batch, over the given keys. If `extends`
/// is set, out and lse already hold the result over other keys, and the given keys are added.
template <class T, class O>
void attend(index head, heads_view<O> out, tensor_view<accumulate_t<T>, 3> lse,
            heads_view<T const> q, heads_view<T const> k, heads_view<T const> v,
            attention_options const& options, bool extends) {
  using A = accumulate_t<T>;
  constexpr A empty_lse = -std::numeric_limits<A>::infinity();
  std::vector<A> scores(static_cast<std::size_t>(k.sequence));
  std::vector<A> weighted(static_cast<std::size_t>(q.head_dim));
  index const b = head / q.heads, h = head % q.heads;
  for (index i = 0; i < q.sequence; ++i) {
    attention_row<T> const row{q, k, v, options, b, h, i};
    O* const to = out.row(b, i, h);
    A const previous_lse = extends ? lse(b, h, i) : empty_lse;
    A greatest = previous_lse;
    for (index j = row.first; j < row.end; ++j)
      greatest = std::max(greatest, scores[static_cast<std::size_t>(j)] = row.score(j));
    A total = 0;
    std::fill(weighted.begin(), weighted.end(), A(0));
    if (previous_lse > empty_lse) {
      total = std::exp(previous_lse - greatest);
      for (std::size_t d = 0; d < weighted.size(); ++d) weighted[d] = total * static_cast<A>(to[d]);
    }
    for (index j = row.first; j < row.end; ++j) {
      A const weight = std::exp(scores[static_cast<std::size_t>(j)] - greatest);
      total += weight;
      T const* const value = v.row(b, j, row.kv);
      for (std::size_t d = 0; d < weighted.size(); ++d)
        weighted[d] += weight * row.factor(j) * static_cast<A>(value[d]);
    }
    for (std::size_t d = 0; d < weighted.size(); ++d)
      to[d] = static_cast<O>(total > 0 ? weighted[d] / total : A(0));
    if (!lse.empty()) lse(b, h, i) = greatest + std::log(total);
  }
}

/// The gradients of one head of keys, which is counted through the batch, and its heads of queries.
template <class T, bool Extends>
void attend_backward(index head, basic_attention_backward_arguments<T, Extends> const& a) {
  using A = accumulate_t<T>;
  using O = attention_result_t<T, Extends>;
  heads_view<T const> const q = a.q, k = a.k, v = a.v;
  index const width = q.head_dim;
  index const b = head / k.heads, kv = head % k.heads;
  index const group_size = q.heads / k.heads;
  std::vector<A> query(static_cast<std::size_t>(width));
  auto const write = [&](O* to, A const* from) {
    for (index d = 0; d < width; ++d)
      to[d] = static_cast<O>(Extends ? static_cast<A>(to[d]) + from[d] : from[d]);
  };
  auto const count = static_cast<std::size_t>(k.sequence * width);
  std::vector<A> keys(count), values(count);  // [Sk, D]
  for (index h = kv * group_size; h < (kv + 1) * group_size; ++h)
    for (index i = 0; i < q.sequence; ++i) {
      attention_row<T> const row{q, k, v, a.options, b, h, i};
      T const* const gradient = a.dout.row(b, i, h);
      A const out_gradient_dot = row.dot(gradient, a.out.row(b, i, h));
      std::fill(query.begin(), query.end(), A(0));
      for (index j = row.first; j < row.end; ++j) {
        A const probability = std::exp(row.score(j) - a.lse(b, h, i));
        A const factor = row.factor(j);
        A const d_score = probability *
                          (factor * row.dot(gradient, v.row(b, j, row.kv)) - out_gradient_dot) *
                          row.derivative(j);
        A* const d_key = keys.data() + j * width;
        A* const d_value = values.data() + j * width;
        for (index d = 0; d < width; ++d) {
          d_value[d] += probability * factor * static_cast<A>(gradient[d]);
          d_key[d] += d_score * static_cast<A>(q.row(b, i, h)[d]);
          query[static_cast<std::size_t>(d)] += d_score * static_cast<A>(k.row(b, j, row.kv)[d]);
        }
      }
      write(a.dq.row(b, i, h), query.data());
    }
  for (index j = 0; j < k.sequence; ++j) {
    write(a.dk.row(b, j, kv), keys.data() + j * width);
    write(a.dv.row(b, j, kv), values.data() + j * width);
  }
}

/// The operations of one product over all pairs (query, key) that see each other.
template <class T>
[[nodiscard]] std::uint64_t attention_product(heads_view<T> const& q, index keys,
                                              attention_options options) {
  positioned_attention const positioned(options, q.sequence, keys);
  return 2 * static_cast<std::uint64_t>(q.batch * q.heads * q.head_dim) *
         static_cast<std::uint64_t>(positioned.pairs());
}

}  // namespace parallel::ops::detail
