// attention in plain loops, one query at a time: the equations as they stand.
//
// Everything is computed and summed in accumulate_t<T>. Scratch: one row of scores; backward also
// the gradients of one sequence's keys and values.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <parallel/ops/attention.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

namespace detail {

/// One query of one head, at position `at`: what its loops over keys need.
template <class T>
struct attention_row {
  using A = accumulate_t<T>;
  ops::heads_view<T const> q, k, v;
  ops::attention_options const& options;
  index b, h, i;
  index kv = h / (q.heads / k.heads);
  index at = k.sequence - q.sequence + i;
  index first = ops::detail::first_key(options, b, i, q.sequence, at);
  std::uint64_t pair = ops::detail::first_pair(options.dropout, b, h, q.heads, k.sequence) +
                       static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(k.sequence);

  [[nodiscard]] A dot(T const* x, T const* y) const {
    A sum = 0;
    for (index d = 0; d < q.head_dim; ++d) sum += static_cast<A>(x[d]) * static_cast<A>(y[d]);
    return sum;
  }

  [[nodiscard]] A scaled(index j) const {
    return dot(q.row(b, i, h), k.row(b, j, kv)) * static_cast<A>(options.scale);
  }

  [[nodiscard]] A score(index j) const {
    A sum = scaled(j);
    if (auto const cap = static_cast<A>(options.softcap); cap > 0) sum = cap * std::tanh(sum / cap);
    if (!options.alibi_slopes.empty())
      sum -= static_cast<A>(options.alibi_slopes[static_cast<std::size_t>(h)]) *
             static_cast<A>(at - j);
    return sum;
  }

  /// The derivative of the score by q·k.
  [[nodiscard]] A derivative(index j) const {
    auto const scale = static_cast<A>(options.scale);
    auto const cap = static_cast<A>(options.softcap);
    if (cap == 0) return scale;
    A const t = std::tanh(scaled(j) / cap);
    return scale * (1 - t * t);
  }

  /// What dropout multiplies probability j by: 0 or 1 / (1 - p).
  [[nodiscard]] A factor(index j) const {
    float const p = options.dropout.probability;
    if (p == 0.0F) return 1;
    bool const kept = options.dropout.random.uniform(pair + static_cast<std::uint64_t>(j)) >= p;
    return kept ? 1 / (1 - static_cast<A>(p)) : A(0);
  }
};

}  // namespace detail

template <class T>
void attention_impl(stream&, ops::heads_view<T> out, tensor_view<accumulate_t<T>, 3> lse,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options options) {
  using A = accumulate_t<T>;
  std::vector<A> scores(static_cast<std::size_t>(k.sequence));
  std::vector<A> sum(static_cast<std::size_t>(q.head_dim));
  for (index b = 0; b < q.batch; ++b)
    for (index h = 0; h < q.heads; ++h)
      for (index i = 0; i < q.sequence; ++i) {
        detail::attention_row<T> const row{q, k, v, options, b, h, i};
        A greatest = -std::numeric_limits<A>::infinity();
        for (index j = row.first; j <= row.at; ++j)
          greatest = std::max(greatest, scores[static_cast<std::size_t>(j)] = row.score(j));
        A total = 0;
        std::fill(sum.begin(), sum.end(), A(0));
        for (index j = row.first; j <= row.at; ++j) {
          A const weight = std::exp(scores[static_cast<std::size_t>(j)] - greatest);
          total += weight;
          T const* const value = v.row(b, j, row.kv);
          for (std::size_t d = 0; d < sum.size(); ++d)
            sum[d] += weight * row.factor(j) * static_cast<A>(value[d]);
        }
        T* const to = out.row(b, i, h);
        for (std::size_t d = 0; d < sum.size(); ++d) to[d] = static_cast<T>(sum[d] / total);
        if (!lse.empty()) lse(b, h, i) = greatest + std::log(total);
      }
}

template <class T>
void attention_backward_impl(stream&, ops::heads_view<T> dq, ops::heads_view<T> dk,
                             ops::heads_view<T> dv, ops::heads_view<T const> dout,
                             ops::heads_view<T const> q, ops::heads_view<T const> k,
                             ops::heads_view<T const> v, ops::heads_view<T const> out,
                             tensor_view<accumulate_t<T> const, 3> lse,
                             ops::attention_options options) {
  using A = accumulate_t<T>;
  index const width = q.head_dim;
  auto const count = static_cast<std::size_t>(k.sequence * k.heads * width);
  std::vector<A> query(static_cast<std::size_t>(width));
  for (index b = 0; b < q.batch; ++b) {
    std::vector<A> keys(count), values(count);  // [Sk, KV, D]
    for (index h = 0; h < q.heads; ++h)
      for (index i = 0; i < q.sequence; ++i) {
        detail::attention_row<T> const row{q, k, v, options, b, h, i};
        T const* const gradient = dout.row(b, i, h);
        A const own = row.dot(gradient, out.row(b, i, h));
        std::fill(query.begin(), query.end(), A(0));
        for (index j = row.first; j <= row.at; ++j) {
          A const probability = std::exp(row.score(j) - lse(b, h, i));
          A const factor = row.factor(j);
          A const d_score = probability * (factor * row.dot(gradient, v.row(b, j, row.kv)) - own) *
                            row.derivative(j);
          A* const d_key = keys.data() + (j * k.heads + row.kv) * width;
          A* const d_value = values.data() + (j * k.heads + row.kv) * width;
          for (index d = 0; d < width; ++d) {
            d_value[d] += probability * factor * static_cast<A>(gradient[d]);
            d_key[d] += d_score * static_cast<A>(q.row(b, i, h)[d]);
            query[static_cast<std::size_t>(d)] += d_score * static_cast<A>(k.row(b, j, row.kv)[d]);
          }
        }
        for (index d = 0; d < width; ++d)
          dq.row(b, i, h)[d] = static_cast<T>(query[static_cast<std::size_t>(d)]);
      }
    for (index j = 0; j < k.sequence; ++j)
      for (index h = 0; h < k.heads; ++h)
        for (index d = 0; d < width; ++d) {
          dk.row(b, j, h)[d] =
              static_cast<T>(keys[static_cast<std::size_t>((j * k.heads + h) * width + d)]);
          dv.row(b, j, h)[d] =
              static_cast<T>(values[static_cast<std::size_t>((j * k.heads + h) * width + d)]);
        }
  }
}

}  // namespace parallel::reference
