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

/// One query of one head: what its loops over the keys [first, end) that it sees need.
template <class T>
struct attention_row {
  using A = accumulate_t<T>;
  ops::heads_view<T const> q, k, v;
  ops::attention_options const& options;
  index b, h, i;
  ops::detail::placed_attention placed{options, q.sequence, k.sequence};
  index kv = h / (q.heads / k.heads);
  index at = placed.at(i);
  index first = placed.first_key(b, i);
  index end = placed.end_key(i + 1);
  std::uint64_t pair =
      placed.first_pair(b, h, q.heads) +
      static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(placed.place.whole);

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

/// out and lse over the keys given; `extends`: over those that they were over before, too.
template <class T, class O>
void attend(ops::heads_view<O> out, tensor_view<accumulate_t<T>, 3> lse, ops::heads_view<T const> q,
            ops::heads_view<T const> k, ops::heads_view<T const> v,
            ops::attention_options const& options, bool extends) {
  using A = accumulate_t<T>;
  constexpr A none = -std::numeric_limits<A>::infinity();
  std::vector<A> scores(static_cast<std::size_t>(k.sequence));
  std::vector<A> sum(static_cast<std::size_t>(q.head_dim));
  for (index b = 0; b < q.batch; ++b)
    for (index h = 0; h < q.heads; ++h)
      for (index i = 0; i < q.sequence; ++i) {
        attention_row<T> const row{q, k, v, options, b, h, i};
        O* const to = out.row(b, i, h);
        A const before = extends ? lse(b, h, i) : none;
        A greatest = before;
        for (index j = row.first; j < row.end; ++j)
          greatest = std::max(greatest, scores[static_cast<std::size_t>(j)] = row.score(j));
        A total = 0;
        std::fill(sum.begin(), sum.end(), A(0));
        if (before > none) {
          total = std::exp(before - greatest);
          for (std::size_t d = 0; d < sum.size(); ++d) sum[d] = total * static_cast<A>(to[d]);
        }
        for (index j = row.first; j < row.end; ++j) {
          A const weight = std::exp(scores[static_cast<std::size_t>(j)] - greatest);
          total += weight;
          T const* const value = v.row(b, j, row.kv);
          for (std::size_t d = 0; d < sum.size(); ++d)
            sum[d] += weight * row.factor(j) * static_cast<A>(value[d]);
        }
        for (std::size_t d = 0; d < sum.size(); ++d)
          to[d] = static_cast<O>(total > 0 ? sum[d] / total : A(0));
        if (!lse.empty()) lse(b, h, i) = greatest + std::log(total);
      }
}

/// `adds`: to dq, dk and dv; otherwise they are overwritten.
template <class T, class O>
void attend_backward(ops::heads_view<O> dq, ops::heads_view<O> dk, ops::heads_view<O> dv,
                     ops::heads_view<T const> dout, ops::heads_view<T const> q,
                     ops::heads_view<T const> k, ops::heads_view<T const> v,
                     ops::heads_view<T const> out, tensor_view<accumulate_t<T> const, 3> lse,
                     ops::attention_options const& options, bool adds) {
  using A = accumulate_t<T>;
  index const width = q.head_dim;
  auto const count = static_cast<std::size_t>(k.sequence * k.heads * width);
  std::vector<A> query(static_cast<std::size_t>(width));
  auto const write = [&](O* to, A const* from) {
    for (index d = 0; d < width; ++d)
      to[d] = static_cast<O>(adds ? static_cast<A>(to[d]) + from[d] : from[d]);
  };
  for (index b = 0; b < q.batch; ++b) {
    std::vector<A> keys(count), values(count);  // [Sk, KV, D]
    for (index h = 0; h < q.heads; ++h)
      for (index i = 0; i < q.sequence; ++i) {
        attention_row<T> const row{q, k, v, options, b, h, i};
        T const* const gradient = dout.row(b, i, h);
        A const own = row.dot(gradient, out.row(b, i, h));
        std::fill(query.begin(), query.end(), A(0));
        for (index j = row.first; j < row.end; ++j) {
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
        write(dq.row(b, i, h), query.data());
      }
    for (index j = 0; j < k.sequence; ++j)
      for (index h = 0; h < k.heads; ++h) {
        write(dk.row(b, j, h), keys.data() + (j * k.heads + h) * width);
        write(dv.row(b, j, h), values.data() + (j * k.heads + h) * width);
      }
  }
}

}  // namespace detail

template <class T>
void attention_impl(stream&, ops::heads_view<T> out, tensor_view<accumulate_t<T>, 3> lse,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options options) {
  detail::attend(out, lse, q, k, v, options, false);
}

template <class T>
void attention_backward_impl(stream&, ops::heads_view<T> dq, ops::heads_view<T> dk,
                             ops::heads_view<T> dv, ops::heads_view<T const> dout,
                             ops::heads_view<T const> q, ops::heads_view<T const> k,
                             ops::heads_view<T const> v, ops::heads_view<T const> out,
                             tensor_view<accumulate_t<T> const, 3> lse,
                             ops::attention_options options) {
  detail::attend_backward(dq, dk, dv, dout, q, k, v, out, lse, options, false);
}

template <class T>
void extend_attention_impl(stream&, ops::heads_view<accumulate_t<T>> out,
                           tensor_view<accumulate_t<T>, 3> lse, ops::heads_view<T const> q,
                           ops::heads_view<T const> k, ops::heads_view<T const> v,
                           ops::attention_options options) {
  detail::attend(out, lse, q, k, v, options, true);
}

template <class T>
void extend_attention_backward_impl(
    stream&, ops::heads_view<accumulate_t<T>> dq, ops::heads_view<accumulate_t<T>> dk,
    ops::heads_view<accumulate_t<T>> dv, ops::heads_view<T const> dout, ops::heads_view<T const> q,
    ops::heads_view<T const> k, ops::heads_view<T const> v, ops::heads_view<T const> out,
    tensor_view<accumulate_t<T> const, 3> lse, ops::attention_options options) {
  detail::attend_backward(dq, dk, dv, dout, q, k, v, out, lse, options, true);
}

}  // namespace parallel::reference
