// Attention: the reference against S x S matrices in double and numeric gradients, the host against
// the reference, with packed inputs, shared key heads, fewer queries than keys, ALiBi, dropout,
// windows, capped scores and packed documents, alone and in all combinations.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host/attention.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "attention_problem.hpp"

namespace attention_test {

/// The definition: a matrix of scores in double, softmax of its rows, a product.
std::vector<double> by_definition(problem<double> const& p, std::vector<double>& log_sums) {
  auto const& n = p.n;
  std::vector<double> result(p.out.size());
  log_sums.clear();
  double const* const in = p.inputs.data();
  auto const q = p.part(in, 0);
  auto const k = p.part(in, 1);
  auto const v = p.part(in, 2);
  auto const to = p.result(result.data());
  for (index b = 0; b < n.batch; ++b)
    for (index h = 0; h < n.heads; ++h) {
      index const shared = h * n.key_heads / n.heads;
      for (index i = 0; i < n.queries; ++i) {
        index const position = n.keys - n.queries + i;
        std::vector<double> weights(static_cast<std::size_t>(n.keys), 0.0);
        double total = 0;
        auto const hidden = [&](index j) {
          return (p.window >= 0 && position - j > p.window) ||
                 (!p.documents.empty() &&
                  j < p.documents[static_cast<std::size_t>(b * n.queries + i)]);
        };
        for (index j = 0; j <= position; ++j) {
          if (hidden(j)) continue;
          double score = 0;
          for (index d = 0; d < n.width; ++d) score += q.row(b, i, h)[d] * k.row(b, j, shared)[d];
          score *= static_cast<double>(p.scale);
          if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
          if (!p.slopes.empty())
            score -= static_cast<double>(p.slopes[static_cast<std::size_t>(h)]) *
                     static_cast<double>(position - j);
          total += weights[static_cast<std::size_t>(j)] = std::exp(score);
        }
        log_sums.push_back(std::log(total));
        for (index j = 0; j <= position; ++j) {
          if (hidden(j)) continue;
          // the element and stream that attention_dropout documents
          auto const element = static_cast<std::uint64_t>(
              (((5 + b) * n.heads + h) * n.keys + position) * n.keys + j);
          float const drop = p.dropout.probability;
          double factor = 1;
          if (drop > 0)
            factor = p.dropout.random.uniform(element) >= drop
                         ? 1.0 / (1.0 - static_cast<double>(drop))
                         : 0.0;
          for (index d = 0; d < n.width; ++d)
            to.row(b, i, h)[d] +=
                factor * weights[static_cast<std::size_t>(j)] / total * v.row(b, j, shared)[d];
        }
      }
    }
  return result;
}

TEST_CASE("attention: the reference follows the definition of causal attention") {
  parallel::reference::stream s;
  for (auto const& size :
       {sizes{2, 7, 7, 4, 4, 8}, sizes{1, 9, 9, 4, 2, 5}, sizes{2, 3, 11, 3, 1, 4},
        sizes{1, 1, 6, 2, 2, 3}, sizes{1, 1, 1, 1, 1, 1}})
    for (auto const& variation : small_variants()) {
      problem<double> p(size, variation);
      p.forward(s);
      std::vector<double> log_sums;
      CHECK(worst_difference(p.out, by_definition(p, log_sums)) < 1e-13);
      CHECK(worst_difference(p.log_sums, log_sums) < 1e-13);
    }
}

TEST_CASE("attention: the reference's gradients are the numeric derivatives of its results") {
  parallel::reference::stream s;
  for (auto const& size :
       {sizes{2, 5, 5, 2, 2, 3}, sizes{1, 4, 4, 4, 2, 3}, sizes{1, 2, 6, 2, 1, 2}})
    for (auto const& variation : small_variants()) {
      problem<double> p(size, variation);
      p.forward_and_backward(s);
      auto const analytic = p.gradients;
      auto const loss = [&] {
        p.forward(s);
        double sum = 0;
        for (std::size_t i = 0; i < p.out.size(); ++i) sum += p.out[i] * p.dout[i];
        return sum;
      };
      double const step = 1e-5;
      double worst = 0;
      for (std::size_t i = 0; i < p.inputs.size(); ++i) {
        double const middle = p.inputs[i];
        p.inputs[i] = middle + step;
        double const loss_above = loss();
        p.inputs[i] = middle - step;
        double const loss_below = loss();
        p.inputs[i] = middle;
        worst = std::max(worst, std::abs((loss_above - loss_below) / (2 * step) - analytic[i]));
      }
      CHECK(worst < 1e-8);
    }
}

/// The host's results and gradients against the reference's in double, given the same inputs;
/// bounds are relative to the greatest number.
template <class T>
void compare(sizes size, variant variation, double result_bound, double gradient_bound) {
  problem<T> one(size, variation);
  CAPTURE(one.text());
  problem<double> truth(one);
  auto two = one;
  parallel::reference::stream r;
  truth.forward_and_backward(r);
  parallel::host::stream single({.threads = 1});
  parallel::host::stream pair({.threads = 2});
  one.forward_and_backward(single);
  two.forward_and_backward(pair);
  CHECK(worst_difference(one.out, truth.out) <= result_bound * greatest(truth.out));
  CHECK(worst_difference(one.log_sums, truth.log_sums) <=
        1e-5 * std::max(1.0, greatest(truth.log_sums)));
  CHECK(worst_difference(one.gradients, truth.gradients) <=
        gradient_bound * greatest(truth.gradients));
  CHECK(one.out == two.out);
  CHECK(one.log_sums == two.log_sums);
  CHECK(one.gradients == two.gradients);
}

std::vector<sizes> host_sizes() {
  std::vector<sizes> out;
  for (index const sequence : {1, 7, 64, 65, 130})
    for (index const width : {8, 24, 64}) out.push_back({2, sequence, sequence, 2, 2, width});
  out.push_back({1, 100, 100, 6, 2, 16});  // grouped queries
  out.push_back({2, 70, 70, 4, 1, 32});    // one key head for all
  out.push_back({1, 1, 77, 4, 2, 24});     // decoding one token
  out.push_back({2, 5, 130, 2, 2, 8});     // a few tokens
  out.push_back({1, 66, 67, 1, 1, 128});   // one head: divided by blocks of queries
  out.push_back({1, 260, 330, 1, 1, 20});
  return out;
}

TEST_CASE(
    "attention: the host agrees with the reference in float, with equal bits for 1 and 2 threads") {
  for (auto const& size : host_sizes())
    for (auto const& variation : variants()) compare<float>(size, variation, 5e-6, 5e-6);
}

TEST_CASE(
    "attention: the host agrees with the reference in bf16, with equal bits for 1 and 2 threads") {
  // rounding the result is half a unit in the last place, 2^-9; D is computed from the rounded
  // result
  for (auto const& size : host_sizes())
    for (auto const& variation : variants()) compare<bf16>(size, variation, 0x1p-7, 0x1p-7);
}

TEST_CASE("attention: the host agrees with the reference in every combination of options") {
  auto const options = combinations();
  for (std::size_t i = 0; i < options.size(); ++i) {
    CAPTURE(i);
    compare<float>(size_of(i, 200), options[i], 5e-6, 5e-6);
    if (i % 3 == 0) compare<bf16>(size_of(i, 200), options[i], 0x1p-7, 0x1p-7);
  }
}

TEST_CASE("attention: a window over all keys and documents of whole sequences change no bit") {
  problem<float> plain({2, 100, 100, 2, 2, 24}, {.alibi = true});
  auto restricted = plain;
  restricted.window = 99;
  restricted.documents.assign(200, 0);
  parallel::host::stream s;
  plain.forward_and_backward(s);
  restricted.forward_and_backward(s);
  CHECK(plain.out == restricted.out);
  CHECK(plain.gradients == restricted.gradients);
}

TEST_CASE("attention: keys outside of the window are not read") {
  parallel::host::stream s;
  check_keys_outside_window(s, 400, 256);
}

TEST_CASE("attention: every instruction set of this processor gives the same results") {
  for (auto const& size : {sizes{1, 100, 130, 4, 2, 24}, sizes{2, 65, 65, 1, 1, 64}})
    for (auto const& variation : small_variants())
      for (int const lanes : {4, 8}) {
        if (lanes > parallel::host::simd::native_lanes()) continue;
        CAPTURE(lanes);
        problem<float> best(size, variation);
        auto narrow = best;
        parallel::host::stream s;
        best.forward_and_backward(s);
        auto& p = narrow;
        float const* const in = p.inputs.data();
        namespace detail = parallel::host::detail;
        parallel::host::workspace memory;
        detail::run_attention(
            detail::attention_forward<float>{p.result(p.out.data()), p.lse(), p.part(in, 0),
                                             p.part(in, 1), p.part(in, 2), p.options()},
            memory, 1, lanes);
        detail::run_attention(detail::attention_backward<float>{p.backward_arguments()}, memory, 1,
                              lanes);
        CHECK(worst_difference(narrow.out, best.out) <= 5e-6 * greatest(best.out));
        CHECK(worst_difference(narrow.gradients, best.gradients) <=
              5e-6 * greatest(best.gradients));
      }
}

TEST_CASE("attention: bf16 pairs give the same results by SIMD registers as by the matrix unit") {
  namespace detail = parallel::host::detail;
  if (!detail::multiplies_pairs()) return;
  for (auto const& size : host_sizes())
    for (auto const& variation : small_variants()) {
      problem<bf16> p(size, variation);
      CAPTURE(p.text());
      problem<double> truth(p);
      parallel::reference::stream r;
      truth.forward_and_backward(r);
      bf16 const* const in = p.inputs.data();
      parallel::host::workspace memory;
      detail::attention_forward<bf16, detail::bf16_pair> forward{
          p.result(p.out.data()), p.lse(),       p.part(in, 0),
          p.part(in, 1),          p.part(in, 2), p.options()};
      detail::attention_backward<bf16, detail::bf16_pair> backward{p.backward_arguments()};
      forward.method = backward.method = detail::multiplier::lanes;
      detail::run_attention(forward, memory, 1);
      detail::run_attention(backward, memory, 1);
      CHECK(worst_difference(p.out, truth.out) <= 0x1p-7 * greatest(truth.out));
      CHECK(worst_difference(p.gradients, truth.gradients) <= 0x1p-7 * greatest(truth.gradients));
    }
}

TEST_CASE("attention: the host in double equals the reference") {
  for (auto const& variation : small_variants()) {
    problem<double> expected({2, 33, 40, 4, 2, 12}, variation);
    auto got = expected;
    parallel::reference::stream r;
    parallel::host::stream s({.threads = 2});
    expected.forward_and_backward(r);
    got.forward_and_backward(s);
    CHECK(got.out == expected.out);
    CHECK(got.gradients == expected.gradients);
  }
}

TEST_CASE("attention: scores far from zero neither overflow nor vanish") {
  problem<float> p({1, 70, 70, 1, 1, 16}, {});
  for (auto& x : p.inputs) x *= 30.0F;
  problem<double> truth(p);
  parallel::reference::stream r;
  parallel::host::stream s;
  truth.forward(r);
  p.forward(s);
  CHECK(greatest(truth.log_sums) > 1000.0);
  CHECK(worst_difference(p.out, truth.out) <
        1e-3 * greatest(truth.out));  // the error of exp(s) is the error of s
}

TEST_CASE("attention: queries one at a time on a growing cache give the results of all at once") {
  problem<float> whole({1, 70, 70, 2, 2, 16}, {.alibi = true, .window = 30, .softcap = 3.0});
  parallel::host::stream s;
  whole.forward(s);
  float const* const in = whole.inputs.data();
  auto const q = whole.part(in, 0);
  auto const k = whole.part(in, 1);
  auto const v = whole.part(in, 2);
  std::vector<float> one(32);
  double worst = 0;
  for (index i = 0; i < 70; ++i) {
    auto query = q;
    query.data = q.row(0, i, 0);
    query.sequence = 1;
    auto keys = k;
    auto values = v;
    keys.sequence = values.sequence = i + 1;
    ops::heads_view<float> const to{one.data(), 1, 1, 2, 16, 32, 32};
    ops::attention(s, to, {}, query, keys, values, whole.options());
    s.synchronize();
    for (index d = 0; d < 32; ++d)
      worst = std::max(
          worst, static_cast<double>(std::abs(one[static_cast<std::size_t>(d)] -
                                              whole.out[static_cast<std::size_t>(i * 32 + d)])));
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("attention: heads split over ranks drop the same probabilities as on one rank") {
  problem<float> whole({1, 20, 20, 4, 4, 8}, {.alibi = true, .dropout = 0.5F});
  parallel::host::stream s;
  whole.forward(s);
  float const* const in = whole.inputs.data();
  std::vector<float> half(20 * 16);
  for (index rank = 0; rank < 2; ++rank) {
    auto const slice = [&](int operand) {
      auto view = whole.part(in, operand);
      view.data += rank * 16;
      view.heads = 2;
      return view;
    };
    auto options = whole.options();
    options.alibi_slopes = options.alibi_slopes.subspan(static_cast<std::size_t>(rank * 2), 2);
    options.dropout.first_head = rank * 2;
    options.dropout.heads = 4;
    ops::attention(s, ops::heads_view<float>{half.data(), 1, 20, 2, 8, 320, 16}, {}, slice(0),
                   slice(1), slice(2), options);
    s.synchronize();
    bool equal = true;
    for (index i = 0; i < 20; ++i)
      for (index d = 0; d < 16; ++d)
        equal = equal && half[static_cast<std::size_t>(i * 16 + d)] ==
                             whole.out[static_cast<std::size_t>(i * 32 + rank * 16 + d)];
    CHECK(equal);
  }
}

TEST_CASE("attention: arguments that do not fit are refused with a message") {
  parallel::host::stream s;
  std::vector<float> data(4096);
  auto const view = [&](index sequence, index heads) {
    return ops::heads_view<float>{data.data(),          1,        sequence, heads, 8,
                                  sequence * heads * 8, heads * 8};
  };
  CHECK_THROWS_WITH_AS(ops::attention(s, view(4, 4), {}, view(4, 4), view(4, 3), view(4, 3)),
                       "ops::attention: 4 query heads cannot share 3 key heads; the number of key "
                       "heads must divide that of query heads",
                       parallel::error);
  CHECK_THROWS_WITH_AS(ops::attention(s, view(4, 2), {}, view(4, 2), view(3, 2), view(3, 2)),
                       "ops::attention: there are 4 queries but only 3 keys; query "
                       "i is at position keys - queries + i, so keys may not be fewer",
                       parallel::error);
  CHECK_THROWS_WITH_AS(
      ops::attention(s, view(4, 2), {}, view(4, 2), view(4, 2), view(5, 2)),
      "ops::attention: the sequence length of v is 5, but the required number is 4; the "
      "two must be the same",
      parallel::error);
  std::vector<float> const slopes(3, 0.5F);
  CHECK_THROWS_WITH_AS(
      ops::attention(s, view(4, 2), {}, view(4, 2), view(4, 2), view(4, 2),
                     {.alibi_slopes = slopes}),
      "ops::attention: there are 3 ALiBi slopes for 2 heads; give one per head, or "
      "none",
      parallel::error);
  CHECK_THROWS_AS(ops::attention(s, view(4, 2), {}, view(4, 2), view(4, 2), view(4, 2),
                                 {.dropout = {.probability = 1.0F}}),
                  parallel::error);
  CHECK_THROWS_WITH_AS(
      ops::attention(s, view(4, 2), {}, view(4, 2), view(4, 2), view(4, 2), {.softcap = -1.0}),
      "ops::attention: softcap is -1, but must be above 0, or 0 for none", parallel::error);
  std::vector<std::int32_t> const begins(3);
  CHECK_THROWS_WITH_AS(ops::attention(s, view(4, 2), {}, view(4, 2), view(4, 2), view(4, 2),
                                      {.document_begins = begins}),
                       "ops::attention: there are 3 document_begins for 4 queries; give one per "
                       "query, or none",
                       parallel::error);
  CHECK_THROWS_WITH_AS(
      ops::attention_backward(s, ops::attention_backward_arguments<float>{.dq = view(4, 2),
                                                                          .dk = view(4, 2),
                                                                          .dv = view(4, 2),
                                                                          .dout = view(4, 2),
                                                                          .q = view(4, 2),
                                                                          .k = view(4, 2),
                                                                          .v = view(4, 2),
                                                                          .out = view(4, 2),
                                                                          .lse = {}}),
      "ops::attention_backward: lse is [0, 0, 0], but must be [batch, heads, "
      "queries] = [1, 2, 4]",
      parallel::error);
  CHECK_NOTHROW(s.synchronize());
}

TEST_CASE("attention: the meta device counts the pairs that causal attention sees") {
  parallel::meta::stream s;
  ops::heads_view<bf16> const q{nullptr, 2, 3, 4, 8, 96, 32};
  ops::heads_view<bf16> const k{nullptr, 2, 5, 2, 8, 80, 16};
  ops::attention(s, q, {nullptr, {2, 4, 3}}, q, k, k);
  std::uint64_t const pairs = 2 * 4 * (3 + 4 + 5);
  CHECK(s.operations() == 4 * pairs * 8);
  ops::attention_backward(s, ops::attention_backward_arguments<bf16>{.dq = q,
                                                                     .dk = k,
                                                                     .dv = k,
                                                                     .dout = q,
                                                                     .q = q,
                                                                     .k = k,
                                                                     .v = k,
                                                                     .out = q,
                                                                     .lse = {nullptr, {2, 4, 3}}});
  CHECK(s.operations() == 14 * pairs * 8);
  for (index const window : {0, 1, 2, 3, 4, 9}) {  // positions 2, 3, 4
    parallel::meta::stream windowed;
    ops::attention(windowed, q, {}, q, k, k, {.window = window});
    std::uint64_t seen = 0;
    for (index position = 2; position < 5; ++position)
      seen += static_cast<std::uint64_t>(std::min(position, window) + 1);
    CHECK(windowed.operations() == 4 * 2 * 4 * seen * 8);
  }
}

}  // namespace attention_test
