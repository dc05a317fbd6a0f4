// Experts: the passes of the layer against differences, plain loops over rows and experts, and each
// other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/experts.hpp>
#include <parallel/ops/experts/jitter.hpp>
#include <parallel/ops/host.hpp>

namespace experts_test {
namespace {

using parallel::index;
using layer_type = parallel::experts<parallel::activation<double>>;

layer_type make(bool is_gated, index experts, index top_k) {
  layer_type layer;
  layer.choose.weight = {"router", {experts, 4}};
  layer.choose.top_k = top_k;
  layer.up = {"up", {experts * 3, 4}};
  if (is_gated) layer.gate = {"gate", {experts * 3, 4}};
  layer.down = {"down", {experts * 3, 4}};
  layer.activate.kind = parallel::ops::activation_kind::silu;
  return layer;
}

TEST_CASE("jitter: factors are uniform from 1 - eps to 1 + eps, and those of each element") {
  constexpr std::size_t count = 4096;
  std::vector<float> const x(count, 2.0F);
  std::vector<float> y(count), part(100);
  parallel::host::stream s;
  parallel::ops::jitter_options options{.eps = 0.25F, .random = {7, 3, 1}};
  parallel::ops::jitter(s, std::span(y), std::span(x), options);
  options.first_element = 50;
  parallel::ops::jitter(s, std::span(part), std::span(x).first(100), options);
  s.synchronize();
  CHECK(std::ranges::equal(part, std::span(y).subspan(50, 100)));
  auto const [least, largest] = std::ranges::minmax(y);
  CHECK((least >= 1.5F && least < 1.51F));
  CHECK((largest < 2.5F && largest > 2.49F));
  double const mean = std::accumulate(y.begin(), y.end(), 0.0) / count;
  CHECK(std::abs(mean - 2.0) < 0.02);
  CHECK_THROWS_WITH_AS(parallel::ops::jitter(s, std::span(y), std::span(x), {.eps = 1.0F}),
                       "ops::jitter: eps is 1, but must be in [0, 1)", parallel::error);
}

TEST_CASE("experts: gradients are those of the forward pass with jitter") {
  auto layer = make(true, 4, 2);
  layer.choose.jitter = 0.25F;
  parallel::check_layer(layer, 6, 4, {.sequence = 3, .difference = 1e-4, .tolerance = 1e-6});
}

TEST_CASE("experts: gradients are those of the forward pass, for every score and norm") {
  using enum parallel::ops::router_score;
  for (auto const score : {softmax, sigmoid})
    for (double const norm : {0.0, 1.0, 2.0})
      for (bool const is_gated : {false, true})
        for (index const top_k : {1, 2, 4}) {
          CAPTURE(norm);
          CAPTURE(is_gated);
          CAPTURE(top_k);
          auto layer = make(is_gated, 4, top_k);
          layer.choose.route = {.score = score, .norm = norm, .scale = 1.5};
          parallel::check_layer(layer, 6, 4,
                                {.sequence = 3, .difference = 1e-4, .tolerance = 1e-6});
        }
}

/// A router of three experts on host memory, and the context of its passes.
struct routed_rows {
  routed_rows() {
    router.weight = {"router", {3, 1}};
    router.weight.trainable = false;
    router.weight.data = weight.data();
    router.top_k = 2;
  }

  /// Gives the router a parameter of one number for each expert.
  void add(parallel::parameter<double, 1>& parameter, std::vector<double> initial) {
    values = std::move(initial);
    gradient.assign(values.size(), 0.0);
    parameter = {"numbers", {3}};
    parameter.data = values.data();
    parameter.gradient_data = gradient.data();
  }

  std::vector<double> weight{3, 2, 1}, values, gradient;
  parallel::router<double> router;
  std::vector<std::byte> space = std::vector<std::byte>(1 << 16);
  parallel::arena memory{{nullptr, space.data(), space.size()}};
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  parallel::router<double>::saved state;
};

TEST_CASE("router: a bias changes what is chosen and no weight, and its gradient are counts") {
  // logits 3, 2, 1 for both rows; the bias lifts the last expert above the second
  std::vector<double> const x{1, 1};
  routed_rows rows;
  auto const& state = rows.state;
  rows.add(rows.router.bias, {0, 0, 0.5});
  rows.router.forward(rows.c, {x.data(), {2, 1}}, rows.state, [](auto&, auto) {});
  double const total = std::exp(3.0) + std::exp(2.0) + std::exp(1.0);
  for (index row = 0; row < 2; ++row) {
    CHECK(state.experts(row, 0) == 0);
    CHECK(state.experts(row, 1) == 2);
    CHECK(state.weights(row, 1) == doctest::Approx(std::exp(1.0) / total));
  }
  rows.router.backward_weight(rows.c, state);
  double const scale = parallel::count_gradient_scale;  // times 3 counts less 4
  CHECK(rows.gradient == std::vector<double>{2 * scale, -4 * scale, 2 * scale});
}

TEST_CASE("router: over the global batch, a balancing loss has the shares of the batch before") {
  // the gradient of 0.5 E Σ_sequences (tokens / rows) Σ_rows Σ_e f_e softmax(logits)_e by logits
  std::vector<double> const x{1, -0.5, 2, 0.25};  // two sequences of two rows
  for (auto const& [loads, shares] :
       {std::pair{std::vector<double>{6, 1, 1}, std::vector<double>{0.75, 0.125, 0.125}},
        {{0, 0, 0}, {1.0 / 3, 1.0 / 3, 1.0 / 3}}}) {
    routed_rows rows;
    auto const& state = rows.state;
    rows.add(rows.router.loads, loads);
    rows.router.losses = {.balance = 0.5, .set = parallel::balance_set::global_batch};
    rows.c.sequence = 2;
    std::vector<std::int32_t> const tokens{2, 1};
    rows.c.sequence_tokens = tokens;
    rows.router.forward(rows.c, {x.data(), {4, 1}}, rows.state, [](auto&, auto) {});
    std::vector<double> const dweights(8);
    (void)rows.router.backward_input(rows.c, {dweights.data(), {4, 2}}, rows.state);
    for (index row = 0; row < 4; ++row) {
      double weighted = 0;
      for (std::size_t e = 0; e < 3; ++e)
        weighted += shares[e] * state.scores(row, static_cast<index>(e));
      for (std::size_t e = 0; e < 3; ++e) {
        double const sequence_factor = 0.5 * 3 * tokens[static_cast<std::size_t>(row / 2)] / 2;
        double const expected =
            sequence_factor * state.scores(row, static_cast<index>(e)) * (shares[e] - weighted);
        CHECK(std::abs(state.dlogits(row, static_cast<index>(e)) - expected) < 1e-15);
      }
    }
    rows.router.backward_weight(rows.c, state);
    double sum = 0;
    for (index e = 0; e < 3; ++e) {
      auto const chosen = std::count(state.experts.data(), state.experts.data() + 8, e);
      CHECK(rows.gradient[static_cast<std::size_t>(e)] ==
            static_cast<double>(chosen) * parallel::count_gradient_scale);
      sum += static_cast<double>(chosen);
    }
    CHECK(sum == 8);
  }
}

}  // namespace
}  // namespace experts_test
