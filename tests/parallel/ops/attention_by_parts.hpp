// Attention over a sequence that is divided into runs of positions, and the expected results. Tests
// run it on streams of every device.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/philox.hpp>
#include <parallel/ops/attention/extend_attention.hpp>

namespace extend_attention_test {

using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
using parallel::tensor_view;
namespace ops = parallel::ops;

struct sizes {
  index batch, length, heads, key_heads, width;
};

struct variant {
  bool alibi = false;
  float dropout = 0.0F;
  index window = -1;
  double softcap = 0.0;
  index document = 0;  // greatest length of a document; 0: one document
};

/// Packed rows [q | k | v] of whole sequences, their gradients, results and lse.
template <class T>
struct problem {
  using A = accumulate_t<T>;

  problem(sizes size, variant variation) : n(size) {
    row = (n.heads + 2 * n.key_heads) * n.width;
    inputs = random<T>(n.batch * n.length * row, 1);
    dout = random<T>(n.batch * n.length * n.heads * n.width, 2);
    for (index h = 0; variation.alibi && h < n.heads; ++h)
      slopes.push_back(std::exp2(-static_cast<float>(h + 1) / 2.0F));
    options = {.scale = 1.0 / std::sqrt(static_cast<double>(n.width)),
               .alibi_slopes = slopes,
               .dropout = {.probability = variation.dropout,
                           .random = parallel::philox(11, 22, 33),
                           .first_sequence = 5,
                           .first_head = 1,
                           .heads = n.heads + 2},
               .softcap = variation.softcap,
               .window = variation.window};
    if (variation.document > 0) {
      parallel::philox const source(4, 7);
      for (index b = 0, begin = 0, end = 0; b < n.batch; ++b)
        for (index j = 0; j < n.length; ++j) {
          if (j == 0 || j == end) {
            begin = j;
            end =
                j + 1 +
                static_cast<index>(source.bits(static_cast<std::uint64_t>(j))) % variation.document;
          }
          documents.push_back(static_cast<std::int32_t>(begin));
        }
      options.document_begins = documents;
    }
  }
  problem(problem const&) = delete;
  problem& operator=(problem const&) = delete;

  template <class U>
  static std::vector<U> random(index count, std::uint32_t stream) {
    parallel::philox const source(3, stream);
    std::vector<U> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<U>(source.normal(i));
    return numbers;
  }

  /// Positions [begin, end) of q (0), k (1) or v (2) among packed rows.
  template <class U>
  [[nodiscard]] ops::heads_view<U> part(std::vector<U>& data, int operand, index begin,
                                        index end) const {
    index const heads = operand == 0 ? n.heads : n.key_heads;
    index const column = operand == 0 ? 0 : (n.heads + (operand - 1) * n.key_heads) * n.width;
    return {data.data() + begin * row + column,
            n.batch,
            end - begin,
            heads,
            n.width,
            n.length * row,
            row};
  }
  template <class U>
  [[nodiscard]] ops::heads_view<U> result(std::vector<U>& data, index begin, index end) const {
    index const width = n.heads * n.width;
    return {data.data() + begin * width,
            n.batch,
            end - begin,
            n.heads,
            n.width,
            n.length * width,
            width};
  }

  sizes n;
  index row;
  ops::attention_options options;
  std::vector<float> slopes;
  std::vector<std::int32_t> documents;
  std::vector<T> inputs, dout;
};

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
  std::vector<A> sums(static_cast<std::size_t>(p.n.batch * p.n.heads * p.n.length));
  tensor_view<A, 3> const lse(sums.data(), {p.n.batch, p.n.heads, p.n.length});
  index const end = p.n.length;
  auto const in = [&](int operand) { return constant(p.part(p.inputs, operand, 0, end)); };
  ops::attention(s, p.result(r.out, 0, end), lse, in(0), in(1), in(2), p.options);
  ops::attention_backward(
      s, ops::attention_backward_arguments<T>{.dq = p.part(r.gradients, 0, 0, end),
                                              .dk = p.part(r.gradients, 1, 0, end),
                                              .dv = p.part(r.gradients, 2, 0, end),
                                              .dout = constant(p.result(p.dout, 0, end)),
                                              .q = in(0),
                                              .k = in(1),
                                              .v = in(2),
                                              .out = constant(p.result(r.out, 0, end)),
                                              .lse = lse,
                                              .options = p.options});
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
  cuts.push_back(p.n.length);
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
    auto options = p.options;
    options.positions = {
        .sequence_length = p.n.length, .first_query = cuts[i], .first_key = cuts[j]};
    return options;
  };
  auto const queries = [&](std::size_t i) {
    return constant(p.part(p.inputs, 0, cuts[i], cuts[i + 1]));
  };
  auto const keys = [&](int operand, std::size_t j) {
    return constant(p.part(p.inputs, operand, cuts[j], cuts[j + 1]));
  };
  for (auto const& [i, j] : pairs)
    ops::extend_attention(s, p.result(r.out, cuts[i], cuts[i + 1]), lse(i), queries(i), keys(1, j),
                          keys(2, j), placed(i, j));
  s.synchronize();
  std::vector<T> rounded(r.out.size());
  for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = static_cast<T>(r.out[i]);
  for (auto const& [i, j] : pairs)
    ops::extend_attention_backward(s, ops::extend_attention_backward_arguments<T>{
                                          .dq = p.part(r.gradients, 0, cuts[i], cuts[i + 1]),
                                          .dk = p.part(r.gradients, 1, cuts[j], cuts[j + 1]),
                                          .dv = p.part(r.gradients, 2, cuts[j], cuts[j + 1]),
                                          .dout = constant(p.result(p.dout, cuts[i], cuts[i + 1])),
                                          .q = queries(i),
                                          .k = keys(1, j),
                                          .v = keys(2, j),
                                          .out = constant(p.result(rounded, cuts[i], cuts[i + 1])),
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

/// The greatest difference relative to the greatest number; infinite if a difference is not finite.
template <class X, class Y>
double worst_relative_difference(std::vector<X> const& x, std::vector<Y> const& y) {
  REQUIRE(x.size() == y.size());
  double worst = 0;
  double greatest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
    greatest = std::max(greatest, std::abs(static_cast<double>(y[i])));
  }
  return worst / std::max(greatest, 1.0);
}

inline std::vector<variant> variants() {
  std::vector<variant> out = {{.softcap = 0.7}, {.window = 0}, {.document = 5}};
  for (bool const alibi : {false, true})
    for (float const dropout : {0.0F, 0.2F})
      for (index const window : {-1, 3, 40})
        for (index const document : {0, 9, 90})
          out.push_back({alibi, dropout, window, alibi ? 2.0 : 0.0, document});
  return out;
}

}  // namespace extend_attention_test
