// Attention by parts: a sequence is cut into runs of positions, and its pairs (run of queries, run
// of keys) are taken in a mixed order. The reference in double must give what whole attention
// gives, with every option and shape; the host must agree with the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/extend_attention.hpp>
#include <parallel/ops/host/attention.hpp>
#include <parallel/ops/meta/attention.hpp>
#include <parallel/ops/reference/attention.hpp>

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

  problem(sizes size, variant what) : n(size) {
    row = (n.heads + 2 * n.key_heads) * n.width;
    inputs = random<T>(n.batch * n.length * row, 1);
    dout = random<T>(n.batch * n.length * n.heads * n.width, 2);
    for (index h = 0; what.alibi && h < n.heads; ++h)
      slopes.push_back(std::exp2(-static_cast<float>(h + 1) / 2.0F));
    options = {.scale = 1.0 / std::sqrt(static_cast<double>(n.width)),
               .alibi_slopes = slopes,
               .dropout = {.probability = what.dropout,
                           .random = parallel::philox(11, 22, 33),
                           .first_sequence = 5,
                           .first_head = 1,
                           .heads = n.heads + 2},
               .softcap = what.softcap,
               .window = what.window};
    if (what.document > 0) {
      parallel::philox const source(4, 7);
      for (index b = 0, begin = 0, end = 0; b < n.batch; ++b)
        for (index j = 0; j < n.length; ++j) {
          if (j == 0 || j == end) {
            begin = j;
            end = j + 1 +
                  static_cast<index>(source.bits(static_cast<std::uint64_t>(j))) % what.document;
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
    std::vector<U> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<U>(source.normal(i));
    return all;
  }

  /// Positions [begin, end) of q (0), k (1) or v (2) among packed rows.
  template <class U>
  [[nodiscard]] ops::heads_view<U> part(std::vector<U>& data, int which, index begin,
                                        index end) const {
    index const heads = which == 0 ? n.heads : n.key_heads;
    index const column = which == 0 ? 0 : (n.heads + (which - 1) * n.key_heads) * n.width;
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

/// Everything at once.
template <class T, class Stream>
outcome<T> whole(problem<T>& p, Stream& s) {
  using A = accumulate_t<T>;
  outcome<T> r{std::vector<T>(p.dout.size()), {}, std::vector<T>(p.inputs.size())};
  std::vector<A> sums(static_cast<std::size_t>(p.n.batch * p.n.heads * p.n.length));
  tensor_view<A, 3> const lse(sums.data(), {p.n.batch, p.n.heads, p.n.length});
  index const end = p.n.length;
  auto const in = [&](int which) { return constant(p.part(p.inputs, which, 0, end)); };
  ops::attention(s, p.result(r.out, 0, end), lse, in(0), in(1), in(2), p.options);
  ops::attention_backward(s, p.part(r.gradients, 0, 0, end), p.part(r.gradients, 1, 0, end),
                          p.part(r.gradients, 2, 0, end), constant(p.result(p.dout, 0, end)), in(0),
                          in(1), in(2), constant(p.result(r.out, 0, end)), lse, p.options);
  s.synchronize();
  r.lse.assign(sums.begin(), sums.end());
  return r;
}

/// Cut before each of `cuts`; pairs of runs in an order that `seed` draws.
template <class T, class Stream>
outcome<accumulate_t<T>> by_parts(problem<T>& p, Stream& s, std::vector<index> cuts,
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
    options.place = {.whole = p.n.length, .first_query = cuts[i], .first_key = cuts[j]};
    return options;
  };
  auto const queries = [&](std::size_t i) {
    return constant(p.part(p.inputs, 0, cuts[i], cuts[i + 1]));
  };
  auto const keys = [&](int which, std::size_t j) {
    return constant(p.part(p.inputs, which, cuts[j], cuts[j + 1]));
  };
  for (auto const& [i, j] : pairs)
    ops::extend_attention(s, p.result(r.out, cuts[i], cuts[i + 1]), lse(i), queries(i), keys(1, j),
                          keys(2, j), placed(i, j));
  s.synchronize();
  std::vector<T> rounded(r.out.size());
  for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = static_cast<T>(r.out[i]);
  for (auto const& [i, j] : pairs)
    ops::extend_attention_backward(
        s, p.part(r.gradients, 0, cuts[i], cuts[i + 1]),
        p.part(r.gradients, 1, cuts[j], cuts[j + 1]), p.part(r.gradients, 2, cuts[j], cuts[j + 1]),
        constant(p.result(p.dout, cuts[i], cuts[i + 1])), queries(i), keys(1, j), keys(2, j),
        constant(p.result(rounded, cuts[i], cuts[i + 1])), lse(i), placed(i, j));
  s.synchronize();
  for (index b = 0; b < p.n.batch; ++b)
    for (index h = 0; h < p.n.heads; ++h)
      for (std::size_t i = 0; i < runs; ++i)
        for (index at = 0; at < cuts[i + 1] - cuts[i]; ++at) r.lse.push_back(lse(i)(b, h, at));
  return r;
}

/// The greatest difference relative to the greatest number; infinite where one is not a number.
template <class X, class Y>
double apart(std::vector<X> const& x, std::vector<Y> const& y) {
  REQUIRE(x.size() == y.size());
  double worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
    most = std::max(most, std::abs(static_cast<double>(y[i])));
  }
  return worst / std::max(most, 1.0);
}

std::vector<variant> variants() {
  std::vector<variant> all = {{.softcap = 0.7}, {.window = 0}, {.document = 5}};
  for (bool const alibi : {false, true})
    for (float const dropout : {0.0F, 0.2F})
      for (index const window : {-1, 3, 40})
        for (index const document : {0, 9, 90})
          all.push_back({alibi, dropout, window, alibi ? 2.0 : 0.0, document});
  return all;
}

TEST_CASE("the reference by parts in any order is the reference at once") {
  parallel::reference::stream s;
  for (auto const& size : {sizes{2, 13, 4, 2, 5}, sizes{1, 12, 3, 1, 4}})
    for (auto const& what : variants())
      for (auto const& cuts : {std::vector<index>{}, {4}, {3, 6, 9}, {1, 2, 11}}) {
        problem<double> p(size, what);
        auto const expected = whole(p, s);
        auto const got = by_parts(p, s, cuts, 1 + cuts.size());
        CHECK(apart(got.out, expected.out) < 1e-14);
        CHECK(apart(got.lse, expected.lse) < 1e-14);
        CHECK(apart(got.gradients, expected.gradients) < 1e-14);
      }
}

/// The host by parts against the reference at once in double, given the same inputs.
template <class T>
void compare(sizes const& size, variant const& what, std::vector<index> const& cuts, double out,
             double gradients) {
  CAPTURE(size.length);
  CAPTURE(what.alibi);
  CAPTURE(what.dropout);
  CAPTURE(what.window);
  CAPTURE(what.document);
  CAPTURE(cuts.size());
  problem<T> p(size, what);
  problem<double> truth(size, what);
  for (std::size_t i = 0; i < p.inputs.size(); ++i)
    truth.inputs[i] = static_cast<double>(p.inputs[i]);
  for (std::size_t i = 0; i < p.dout.size(); ++i) truth.dout[i] = static_cast<double>(p.dout[i]);
  parallel::reference::stream r;
  parallel::host::stream one({.threads = 1});
  parallel::host::stream two({.threads = 2});
  auto const expected = whole(truth, r);
  auto const got = by_parts(p, one, cuts, 3);
  CHECK(apart(got.out, expected.out) < out);
  CHECK(apart(got.lse, expected.lse) < 1e-5);
  CHECK(apart(got.gradients, expected.gradients) < gradients);
  auto const again = by_parts(p, two, cuts, 3);
  CHECK(got.out == again.out);
  CHECK(got.gradients == again.gradients);
}

TEST_CASE("the host by parts agrees with the reference at once") {
  for (auto const& what : variants()) {
    compare<float>({2, 44, 2, 1, 8}, what, {11, 22, 33}, 5e-6, 5e-6);
    // products of bf16 where the processor has them round the weights: as for whole attention
    compare<bf16>({1, 200, 4, 2, 24}, what, {64, 70}, 0x1p-7, 0x1p-7);
    compare<float>({1, 260, 2, 2, 20}, what, {65, 130, 195}, 5e-6, 5e-6);
  }
}

TEST_CASE("queries that see none of the keys keep what they had, and begin with nothing") {
  parallel::host::stream s;
  problem<float> p({1, 8, 1, 1, 4}, {.window = 1});
  auto const in = [&](int which, index begin) {
    return constant(p.part(p.inputs, which, begin, begin + 4));
  };
  std::vector<float> out(16, 99.0F);
  float const none = -std::numeric_limits<float>::infinity();
  std::vector<float> sums(4, none);
  tensor_view<float, 3> const lse(sums.data(), {1, 1, 4});
  auto options = p.options;
  options.place = {.whole = 8, .first_query = 4, .first_key = 0};  // only position 4 sees one, 3
  ops::heads_view<float> const to{out.data(), 1, 4, 1, 4, 16, 4};
  ops::extend_attention(s, to, lse, in(0, 4), in(1, 0), in(2, 0), options);
  s.synchronize();
  CHECK(std::isfinite(sums[0]));
  CHECK(std::vector<float>(out.begin(), out.begin() + 4) ==
        std::vector<float>(in(2, 0).row(0, 3, 0), in(2, 0).row(0, 3, 0) + 4));
  for (std::size_t i = 1; i < 4; ++i) CHECK(sums[i] == none);
  for (std::size_t i = 4; i < 16; ++i) CHECK(out[i] == 0.0F);
  auto const before = std::pair(out, sums);
  options.place.first_key = 4;
  options.place.first_query = 0;  // keys of the future
  ops::extend_attention(s, to, lse, in(0, 0), in(1, 4), in(2, 4), options);
  s.synchronize();
  CHECK(std::pair(out, sums) == before);
}

TEST_CASE("parts that are not of the sequence are refused") {
  parallel::reference::stream s;
  std::vector<float> x(64);
  ops::heads_view<float> const v{x.data(), 1, 4, 1, 4, 16, 4};
  std::vector<float> sums(4);
  tensor_view<float, 3> const lse(sums.data(), {1, 1, 4});
  CHECK_THROWS_WITH_AS(
      ops::extend_attention(s, v, lse, v, v, v, {.place = {.whole = 10, .first_query = 7}}),
      "ops::extend_attention: the queries stand at positions 7 to 10, but the sequence has 10",
      parallel::error);
  std::vector<std::int32_t> const begins(4);
  CHECK_THROWS_WITH_AS(
      ops::extend_attention(s, v, lse, v, v, v, {.document_begins = begins, .place = {.whole = 8}}),
      "ops::extend_attention: there are 4 document_begins for 8 positions; give one per position, "
      "or none",
      parallel::error);
  CHECK_THROWS_AS(ops::extend_attention(s, v, {}, v, v, v, {.place = {.whole = 8}}),
                  parallel::error);
}

TEST_CASE("the meta device counts the pairs of each part") {
  ops::heads_view<bf16> const q{nullptr, 2, 5, 4, 8, 96, 32};
  ops::heads_view<bf16> const k{nullptr, 2, 7, 2, 8, 80, 16};
  ops::heads_view<float> const out{nullptr, 2, 5, 4, 8, 96, 32};
  ops::heads_view<float> const dk{nullptr, 2, 7, 2, 8, 80, 16};
  tensor_view<float, 3> const lse(nullptr, {2, 4, 5});
  for (index const window : {-1, 0, 1, 3, 9})
    for (index first_query = 0; first_query <= 15; ++first_query)
      for (index first_key = 0; first_key <= 13; ++first_key) {
        ops::attention_options const options{
            .window = window,
            .place = {.whole = 20, .first_query = first_query, .first_key = first_key}};
        std::uint64_t seen = 0;
        for (index i = first_query; i < first_query + 5; ++i)
          for (index j = first_key; j < first_key + 7; ++j)
            seen += j <= i && (window < 0 || i - j <= window) ? 1U : 0U;
        parallel::meta::stream s;
        ops::extend_attention(s, out, lse, q, k, k, options);
        CHECK(s.operations() == 4 * 2 * 4 * seen * 8);
        ops::extend_attention_backward(s, out, dk, dk, q, q, k, k, q, lse, options);
        CHECK(s.operations() == 14 * 2 * 4 * seen * 8);
      }
}

}  // namespace extend_attention_test
