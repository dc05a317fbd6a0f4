// Attention over a sequence that is divided into runs of positions, and the expected results. Tests
// run it on streams of every device.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/attention/extend_attention.hpp>

#include "parallel/ops/attention_problem.hpp"

namespace extend_attention_test {

using namespace attention_test;
using parallel::index;

/// A problem of as many queries as keys, whose heads are some of a layer's.
template <class T>
problem<T> problem_of_heads(sizes size, variant variation) {
  problem<T> out(size, variation);
  out.dropout.first_head = 1;
  out.dropout.heads = size.heads + 2;
  return out;
}

template <class V>
auto constant(ops::heads_view<V> view) {
  return ops::heads_view<V const>(view);
}

/// out [B, S, H, D], lse [B, H, S] and the gradients of packed rows.
template <class A>
struct outcome {
  std::vector<A> out, lse, gradients;
};

/// Attention over the whole sequence in one call.
template <class T, class Stream>
outcome<T> attend_at_once(problem<T>& p, Stream& s) {
  using A = accumulate_t<T>;
  outcome<T> r{std::vector<T>(p.dout.size()), {}, std::vector<T>(p.inputs.size())};
  std::vector<A> sums(static_cast<std::size_t>(p.n.batch * p.n.heads * p.n.keys));
  tensor_view<A, 3> const lse(sums.data(), {p.n.batch, p.n.heads, p.n.keys});
  auto const in = [&](int operand) { return constant(p.part(p.inputs.data(), operand)); };
  ops::attention(s, p.result(r.out.data()), lse, in(0), in(1), in(2), p.options());
  ops::attention_backward(
      s, ops::attention_backward_arguments<T>{.dq = p.part(r.gradients.data(), 0),
                                              .dk = p.part(r.gradients.data(), 1),
                                              .dv = p.part(r.gradients.data(), 2),
                                              .dout = constant(p.result(p.dout.data())),
                                              .q = in(0),
                                              .k = in(1),
                                              .v = in(2),
                                              .out = constant(p.result(r.out.data())),
                                              .lse = lse,
                                              .options = p.options()});
  s.synchronize();
  r.lse.assign(sums.begin(), sums.end());
  return r;
}

/// Attention by parts: runs begin at each of `cuts`, and pairs of runs come in a random order drawn
/// from `seed`.
template <class T, class Stream>
outcome<accumulate_t<T>> attend_by_parts(problem<T>& p, Stream& s, std::vector<index> cuts,
                                         std::uint64_t seed) {
  using A = accumulate_t<T>;
  A const poison = std::numeric_limits<A>::quiet_NaN();
  outcome<A> r{std::vector<A>(p.dout.size(), poison), {}, std::vector<A>(p.inputs.size())};
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(p.n.keys);
  std::size_t const runs = cuts.size() - 1;
  std::vector<std::vector<A>> sums(runs);
  auto const lse = [&](std::size_t i) {
    return tensor_view<A, 3>(sums[i].data(), {p.n.batch, p.n.heads, cuts[i + 1] - cuts[i]});
  };
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < runs; ++i) {
    sums[i].assign(static_cast<std::size_t>(p.n.batch * p.n.heads * (cuts[i + 1] - cuts[i])),
                   -std::numeric_limits<A>::infinity());
    for (std::size_t j = 0; j < runs; ++j) pairs.emplace_back(i, j);
  }
  parallel::philox const source(seed, 5);
  for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[source.bits(i) % i]);
  auto const placed = [&](std::size_t i, std::size_t j) {
    auto options = p.options();
    options.positions = {.sequence_length = p.n.keys, .first_query = cuts[i], .first_key = cuts[j]};
    return options;
  };
  auto const queries = [&](std::size_t i) {
    return constant(p.part(p.inputs.data(), 0).slice(cuts[i], cuts[i + 1]));
  };
  auto const keys = [&](int operand, std::size_t j) {
    return constant(p.part(p.inputs.data(), operand).slice(cuts[j], cuts[j + 1]));
  };
  for (auto const& [i, j] : pairs)
    ops::extend_attention(s, p.result(r.out.data()).slice(cuts[i], cuts[i + 1]), lse(i), queries(i),
                          keys(1, j), keys(2, j), placed(i, j));
  s.synchronize();
  std::vector<T> rounded(r.out.size());
  for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = static_cast<T>(r.out[i]);
  for (auto const& [i, j] : pairs)
    ops::extend_attention_backward(
        s, ops::extend_attention_backward_arguments<T>{
               .dq = p.part(r.gradients.data(), 0).slice(cuts[i], cuts[i + 1]),
               .dk = p.part(r.gradients.data(), 1).slice(cuts[j], cuts[j + 1]),
               .dv = p.part(r.gradients.data(), 2).slice(cuts[j], cuts[j + 1]),
               .dout = constant(p.result(p.dout.data()).slice(cuts[i], cuts[i + 1])),
               .q = queries(i),
               .k = keys(1, j),
               .v = keys(2, j),
               .out = constant(p.result(rounded.data()).slice(cuts[i], cuts[i + 1])),
               .lse = lse(i),
               .options = placed(i, j)});
  s.synchronize();
  for (index b = 0; b < p.n.batch; ++b)
    for (index h = 0; h < p.n.heads; ++h)
      for (std::size_t i = 0; i < runs; ++i)
        for (index position = 0; position < cuts[i + 1] - cuts[i]; ++position)
          r.lse.push_back(lse(i)(b, h, position));
  return r;
}

/// The greatest difference relative to the greatest number of y, if that is above 1; not finite if
/// a difference is not.
template <class X, class Y>
double worst_relative_difference(std::vector<X> const& x, std::vector<Y> const& y) {
  return worst_difference(x, y) / std::max(greatest(y), 1.0);
}

inline std::vector<variant> variants_by_parts() {
  std::vector<variant> out = {{.softcap = 0.7}, {.window = 0}, {.document = 5}};
  for (bool const alibi : {false, true})
    for (float const dropout : {0.0F, 0.2F})
      for (index const window : {-1, 3, 40})
        for (index const document : {0, 9, 90})
          out.push_back({alibi, dropout, window, alibi ? 2.0 : 0.0, document});
  return out;
}

}  // namespace extend_attention_test
