// The choice of experts against a stable sort, its weights against the formulas, and its gradients
// against differences.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

#include "parallel/ops/support.hpp"

namespace route_test {

using namespace ops_support;
namespace ops = parallel::ops;
using enum ops::router_score;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;
using std::size_t;
using numbers = std::vector<std::int32_t>;

template <class A>
struct routes {
  std::vector<A> scores;
  numbers experts, scored;
  std::vector<A> weights;
};

template <class A>
routes<A> route_on(auto& s, std::vector<A> const& logits, std::vector<A> const& bias,
                   ptrdiff_t rows, ptrdiff_t top_k, ops::route_options const& options) {
  auto const choices = static_cast<size_t>(rows * top_k);
  routes<A> got{std::vector<A>(logits.size()), numbers(choices), numbers(choices),
                std::vector<A>(choices)};
  ops::route(s, matrix(got.scores, rows), matrix(got.experts, rows),
             matrix(options.uniform ? got.scored : got.experts, rows), matrix(got.weights, rows),
             matrix(logits, rows), bias.empty() ? parallel::vector_view<A const>{} : vector(bias),
             options);
  s.synchronize();
  if (!options.uniform) got.scored = got.experts;
  return got;
}

template <class A>
routes<A> route_plainly(std::vector<A> const& logits, ptrdiff_t rows, ptrdiff_t top_k,
                        ops::route_options const& options = {}, std::vector<A> const& bias = {}) {
  parallel::reference::stream s;
  return route_on(s, logits, bias, rows, top_k, options);
}

/// The scores of one row by their definitions.
std::vector<double> scores_of(std::vector<double> const& logits, ops::router_score score) {
  std::vector<double> out(logits.size());
  double sum = 0;
  for (double const l : logits) sum += std::exp(l);
  for (size_t e = 0; e < out.size(); ++e)
    out[e] = score == softmax   ? std::exp(logits[e]) / sum
             : score == sigmoid ? std::exp(logits[e]) / (1 + std::exp(logits[e]))
                                : logits[e];
  return out;
}

/// The weights of the chosen experts by their definition.
std::vector<double> weights_of(std::vector<double> const& scores, numbers const& chosen,
                               ops::route_options const& options) {
  double norm = 0;
  for (auto const e : chosen) norm += std::pow(scores[static_cast<size_t>(e)], options.norm);
  norm = options.norm > 0 ? std::pow(norm, 1 / options.norm) : 1;
  std::vector<double> out;
  for (auto const e : chosen) out.push_back(options.scale * scores[static_cast<size_t>(e)] / norm);
  return out;
}

/// The experts of one row, in ascending order, by sorting groups and then experts.
numbers choose(std::vector<double> keys, ptrdiff_t top_k, ops::route_options const& options) {
  auto const size = keys.size() / static_cast<size_t>(options.groups);
  std::vector<double> sums;
  for (size_t g = 0; g < keys.size(); g += size) {
    auto group = std::vector(keys.begin() + static_cast<ptrdiff_t>(g),
                             keys.begin() + static_cast<ptrdiff_t>(g + size));
    std::ranges::sort(group, std::greater{});
    sums.push_back(group[0] + (size > 1 ? group[1] : 0.0));
  }
  auto const sorted = [](std::vector<double> const& of) {
    numbers out(of.size());
    std::iota(out.begin(), out.end(), 0);
    std::ranges::stable_sort(out, std::greater{},
                             [&](auto i) { return of[static_cast<size_t>(i)]; });
    return out;
  };
  auto const groups = sorted(sums);
  for (size_t g = static_cast<size_t>(options.chosen_groups); g < groups.size(); ++g)
    std::fill_n(keys.begin() + groups[g] * static_cast<ptrdiff_t>(size), size, -1e30);
  auto out = sorted(keys);
  out.resize(static_cast<size_t>(top_k));
  std::ranges::sort(out);
  return out;
}

std::vector<ops::route_options> all_options() {
  std::vector<ops::route_options> out;
  for (auto const score : {softmax, sigmoid, identity})
    for (double const norm : {0.0, 1.0, 2.0})
      for (bool const grouped : {false, true})
        if (score != identity || norm == 0.0)
          out.push_back({.score = score,
                         .norm = norm,
                         .scale = norm == 1.0 ? 2.5 : 1.0,
                         .groups = grouped ? 4 : 1,
                         .chosen_groups = grouped ? 2 : 1});
  return out;
}

TEST_CASE_TEMPLATE(
    "route: experts are those of a stable sort by score and bias, and weights follow the formulas",
    A, float, double) {
  ptrdiff_t const rows = 40;
  for (auto const& options : all_options())
    for (ptrdiff_t const experts : {4, 8, 64})
      for (ptrdiff_t const top_k : {1, 2, 8})
        for (bool const with_bias : {false, true}) {
          if (top_k > experts / options.groups * options.chosen_groups) continue;
          CAPTURE(experts);
          CAPTURE(top_k);
          CAPTURE(options.groups);
          auto const logits = random<A>(rows * experts, 1, 2.0);
          auto const bias = with_bias ? random<A>(experts, 2, 0.3) : std::vector<A>{};
          auto const got = route_plainly(logits, rows, top_k, options, bias);
          numbers chosen;
          std::vector<double> scores, weights;
          for (ptrdiff_t m = 0; m < rows; ++m) {
            auto const row = scores_of(
                {logits.begin() + m * experts, logits.begin() + (m + 1) * experts}, options.score);
            auto keys = row;
            for (size_t e = 0; with_bias && e < keys.size(); ++e) keys[e] += double(bias[e]);
            auto const row_chosen = choose(keys, top_k, options);
            auto const row_weights = weights_of(row, row_chosen, options);
            chosen.insert(chosen.end(), row_chosen.begin(), row_chosen.end());
            scores.insert(scores.end(), row.begin(), row.end());
            weights.insert(weights.end(), row_weights.begin(), row_weights.end());
          }
          CHECK(got.experts == chosen);
          double const bound = static_cast<double>(16 + experts) * unit<A>;
          CHECK(excess(got.scores, scores, bound) <= 0);
          CHECK(excess(got.weights, weights, bound) <= 0);
        }
}

TEST_CASE_TEMPLATE("route: the host has the reference's bits, forward and backward", A, float,
                   double, std::uint64_t) {
  ptrdiff_t const rows = 700, experts = 16, top_k = 3;
  auto const logits = random<A>(rows * experts, 1), bias = random<A>(experts, 2, 0.1);
  auto const dweights = random<A>(rows * top_k, 3), slopes = random<A>(2 * experts, 4);
  auto const z_slopes = random<A>(4, 5);
  for (auto options : all_options())
    for (bool const uniform : {false, true}) {
      if (std::is_integral_v<A> && options.score != identity) continue;
      options.uniform = uniform;
      auto const expected = route_plainly(logits, rows, top_k, options, bias);
      auto const gradient_on = [&](auto& s) {
        std::vector<A> dlogits(logits.size());
        ops::route_backward(s, matrix(dlogits, rows), matrix(dweights, rows), matrix(logits, rows),
                            matrix(expected.scores, rows), matrix(expected.scored, rows),
                            matrix(slopes, 2), vector(z_slopes), options);
        s.synchronize();
        return dlogits;
      };
      parallel::reference::stream plain;
      auto const expected_gradient = gradient_on(plain);
      for (int const threads : {1, 2, 3}) {
        parallel::host::stream s({.threads = threads});
        auto const got = route_on(s, logits, bias, rows, top_k, options);
        CHECK(same_bits(got.scores, expected.scores));
        CHECK(got.experts == expected.experts);
        CHECK(got.scored == expected.scored);
        CHECK(same_bits(got.weights, expected.weights));
        CHECK(same_bits(gradient_on(s), expected_gradient));
      }
    }
}

TEST_CASE("route: of equal scores the lower index is chosen") {
  std::vector<float> const logits{1, 2, 2, 0, 2, 1, 1, 1, 1, 1};
  for (auto const score : {softmax, sigmoid, identity}) {
    auto const got = route_plainly(logits, 2, 2, {.score = score});
    CHECK(got.experts == numbers{1, 2, 0, 1});
  }
  auto const grouped = route_plainly(std::vector<float>{1, 0, 0, 1, 1, 0, 0, 1}, 1, 2,
                                     {.score = identity, .groups = 4, .chosen_groups = 2});
  CHECK(grouped.experts == numbers{0, 3});
}

TEST_CASE("route: logits tell experts apart whose scores rounding makes equal") {
  std::vector<float> const logits{-200, -199, 0, 30, 31, 29};
  CHECK(route_plainly(logits, 2, 2, {}).experts == numbers{1, 2, 0, 1});
  CHECK(route_plainly(logits, 2, 2, {.score = sigmoid}).experts == numbers{1, 2, 0, 1});
}

TEST_CASE(
    "route: a logit that is not a number comes last, and gives weights that are not numbers") {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (auto const score : {softmax, sigmoid, identity}) {
    auto const one = route_plainly(std::vector<float>{nan, 1, nan, 2}, 1, 2, {.score = score});
    CHECK(one.experts == numbers{1, 3});
    CHECK(std::isnan(one.weights[0]) == (score == softmax));
    auto const all = route_plainly(std::vector<float>{nan, nan, 5, nan}, 1, 3, {.score = score});
    CHECK(all.experts == numbers{0, 1, 2});
    CHECK(std::isnan(all.weights[0]));
  }
  auto const biased =
      route_plainly(std::vector<float>{nan, -9, nan, 1}, 1, 2, {.score = sigmoid}, {5, 0, 0, 0});
  CHECK(biased.experts == numbers{1, 3});
}

TEST_CASE("route: a uniform assignment counts rows of the batch, with the best scores' weights") {
  std::vector<float> const logits{3, 1, 2, 1, 2, 3};
  auto const got = route_plainly(
      logits, 2, 2, {.score = identity, .uniform = true, .first_row = 4});  // choices 8 to 11
  CHECK(got.experts == numbers{0, 2, 1, 2});
  CHECK(got.scored == numbers{2, 0, 2, 1});
  CHECK(got.weights == std::vector<float>{2, 3, 3, 2});
}

TEST_CASE("route_backward: gradients are those of weights, balancing loss and z-loss") {
  ptrdiff_t const rows = 6, experts = 8, top_k = 3, sets = 2;
  auto const logits = random<double>(rows * experts, 1);
  auto const dweights = random<double>(rows * top_k, 2), slopes = random<double>(sets * experts, 3);
  double const z = 0.3;
  std::vector<double> const z_slopes{z};
  for (auto const& options : all_options()) {
    if (options.score == identity) continue;
    CAPTURE(options.norm);
    auto const chosen = route_plainly(logits, rows, top_k, options);
    auto const loss = [&](std::vector<double> const& at) {
      double sum = 0;
      for (ptrdiff_t m = 0; m < rows; ++m) {
        std::vector<double> const row(at.begin() + m * experts, at.begin() + (m + 1) * experts);
        auto const scores = scores_of(row, options.score);
        auto const weights = weights_of(
            scores, {chosen.experts.begin() + m * top_k, chosen.experts.begin() + (m + 1) * top_k},
            options);
        double exponentials = 0;
        for (size_t e = 0; e < scores.size(); ++e) {
          exponentials += std::exp(row[e]);
          sum += scores[e] * slopes[static_cast<size_t>(m / (rows / sets) * experts) + e];
        }
        for (size_t c = 0; c < weights.size(); ++c)
          sum += weights[c] * dweights[static_cast<size_t>(m * top_k) + c];
        sum += z * std::pow(std::log(exponentials), 2);
      }
      return sum;
    };
    std::vector<double> got(logits.size()), expected;
    parallel::reference::stream s;
    ops::route_backward(s, matrix(got, rows), matrix(dweights, rows), matrix(logits, rows),
                        matrix(chosen.scores, rows), matrix(chosen.experts, rows),
                        matrix(slopes, sets), vector(z_slopes), options);
    for (size_t i = 0; i < logits.size(); ++i) {
      auto above = logits, below = logits;
      above[i] += 1e-5;
      below[i] -= 1e-5;
      expected.push_back((loss(above) - loss(below)) / 2e-5);
    }
    CHECK(excess(got, expected, 1e-7) <= 1e-8);
  }
}

TEST_CASE("route_backward: a gradient in bf16 is that in float, rounded once") {
  std::vector<float> const logits{1, 2, 0, -1}, scores{1, 2, 0, -1},
      dweights{1.00390625F + 0x1p-9F};
  numbers const scored{1};
  std::vector<bf16> narrow(4);
  std::vector<float> wide(4);
  on_reference([&](auto& s) {
    auto const run = [&](auto& to) {
      ops::route_backward(s, matrix(to, 1), matrix(dweights, 1), matrix(logits, 1),
                          matrix(scores, 1), matrix(scored, 1), {}, {}, {.score = identity});
    };
    run(narrow);
    run(wide);
  });
  CHECK(wide == std::vector<float>{0, dweights[0], 0, 0});
  CHECK(static_cast<float>(narrow[1]) == static_cast<float>(bf16(dweights[0])));
}

TEST_CASE("route: numbers of experts and groups that are not possible are refused") {
  auto const message_of = [](ptrdiff_t top_k, ops::route_options const& options) {
    return test::message_of([&] { route_plainly(std::vector<float>(130), 1, top_k, options); });
  };
  CHECK(message_of(64, {}) == "");
  CHECK(message_of(0, {}) ==
        "ops::route: 0 experts of a row are to be chosen from 130; choose 1 to 64");
  CHECK(message_of(65, {}) ==
        "ops::route: 65 experts of a row are to be chosen from 130; choose 1 to 64");
  std::string const of_groups = " of 130 experts cannot be chosen from ";
  CHECK(message_of(2, {.groups = 4}) ==
        "ops::route: 2" + of_groups + "1 of 4 groups of equal size");
  CHECK(message_of(14, {.groups = 10}) ==
        "ops::route: 14" + of_groups + "1 of 10 groups of equal size");
  CHECK(message_of(2, {.groups = 10, .chosen_groups = 11}) ==
        "ops::route: 2" + of_groups + "11 of 10 groups of equal size");
}

TEST_CASE("route: shapes that do not belong together are refused by name") {
  std::vector<float> room(64);
  numbers ids(64);
  auto const floats = [&](ptrdiff_t rows, ptrdiff_t columns) {
    return parallel::matrix_view<float>(room.data(), {rows, columns});
  };
  auto const choices = [&](ptrdiff_t rows, ptrdiff_t columns) {
    return parallel::matrix_view<std::int32_t>(ids.data(), {rows, columns});
  };
  auto const message_of = [](auto const& call) {
    return test::message_of([&] {
      parallel::meta::stream s;
      call(s);
    });
  };
  auto const route = [&](auto scores, auto experts, auto scored, auto weights, ptrdiff_t biases) {
    return message_of([=, &room](auto& s) {
      ops::route(s, scores, experts, scored, weights,
                 parallel::matrix_view<float>(room.data(), {3, 4}),
                 parallel::vector_view<float const>(room.data(), {biases}));
    });
  };
  CHECK(route(floats(3, 4), choices(3, 2), choices(3, 2), floats(3, 2), 4) == "");
  CHECK(route(floats(3, 4), choices(2, 2), choices(2, 2), floats(2, 2), 0) ==
        "ops::route: the number of rows of experts is 2, but that of logits is 3; the two must be "
        "the same");
  CHECK(route(floats(3, 5), choices(3, 2), choices(3, 2), floats(3, 2), 0) ==
        "ops::route: scores and logits have different extents");
  CHECK(route(floats(3, 4), choices(3, 2), choices(3, 2), floats(3, 1), 0) ==
        "ops::route: experts and their weights have different extents");
  CHECK(route(floats(3, 4), choices(3, 2), choices(3, 2), floats(3, 2), 3) ==
        "ops::route: the number of biases is 3, but that of experts is 4; the two must be the "
        "same");
  auto const backward = [&](auto dlogits, auto dweights, auto slopes) {
    return message_of([=](auto& s) {
      ops::route_backward(s, dlogits, dweights, floats(3, 4), floats(3, 4), choices(3, 2), slopes,
                          {}, {});
    });
  };
  CHECK(backward(floats(3, 4), floats(3, 2), floats(3, 4)) == "");
  CHECK(backward(floats(3, 5), floats(3, 2), floats(3, 4)) ==
        "ops::route_backward: logits, scores and the gradient have different extents");
  CHECK(backward(floats(3, 4), floats(3, 1), floats(3, 4)) ==
        "ops::route_backward: experts and the gradients of their weights have different extents");
  CHECK(backward(floats(3, 4), floats(3, 2), floats(2, 4)) ==
        "ops::route_backward: 3 rows are not divided equally by 2 sets");
  CHECK(backward(floats(3, 4), floats(3, 2), floats(1, 3)) ==
        "ops::route_backward: the number of columns of slopes is 3, but that of logits is 4; the "
        "two must be the same");
}

TEST_CASE("route: the meta device counts the operations that the arguments state") {
  parallel::meta::stream s;
  parallel::matrix_view<float> const logits(nullptr, {5, 8}), weights(nullptr, {5, 2});
  parallel::matrix_view<std::int32_t> const experts(nullptr, {5, 2});
  ops::route(s, logits, experts, experts, weights, logits);
  CHECK(s.operations() == 4 * 40);
  ops::route(s, logits, experts, experts, weights, logits, {}, {.norm = 1.0});
  CHECK(s.operations() == 2 * 4 * 40 + 3 * 10);
  ops::route_backward(s, logits, weights, logits, logits, experts, {}, {}, {});
  CHECK(s.operations() == 2 * 4 * 40 + 3 * 10 + 10 * 40);
}

}  // namespace route_test
