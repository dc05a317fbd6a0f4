// Activations against their formulas in double, numeric derivatives, and the host.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <parallel/ops/host/pointwise/activation.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace activation_test {

using namespace ops_support;
namespace ops = parallel::ops;
using enum ops::activation_kind;
using parallel::bf16;

constexpr ops::activation_kind kinds[] = {gelu, gelu_tanh, quick_gelu, silu, relu};

/// The formulas of the papers.
double formula(ops::activation_kind kind, double x) {
  switch (kind) {
    case gelu: return x * 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2));
    case gelu_tanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case quick_gelu: return x / (1.0 + std::exp(-1.702 * x));
    case silu: return x / (1.0 + std::exp(-x));
    case relu: return std::max(x, 0.0);
  }
  return std::nan("");
}

TEST_CASE(
    "activation: the reference equals the published formula, its gradient the numeric derivative") {
  auto const x = random<double>(1000, 1, 2.0);
  std::vector<double> const dy(x.size(), 3.0);
  double const h = 1e-5;
  for (auto const kind : kinds) {
    CAPTURE(static_cast<int>(kind));
    std::vector<double> y(x.size()), dx(x.size());
    on_reference([&](auto& s) {
      ops::activation(s, std::span(y), std::span(x), kind);
      ops::activation_backward(s, std::span(dx), std::span(x), std::span(dy), kind);
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(std::abs(y[i] - formula(kind, x[i])) <= 1e-15 * std::max(1.0, std::abs(x[i])));
      double const slope = (formula(kind, x[i] + h) - formula(kind, x[i] - h)) / (2.0 * h);
      CHECK(std::abs(dx[i] - 3.0 * slope) <= 1e-8);
    }
  }
}

TEST_CASE_TEMPLATE("activation: the host equals the reference for odd sizes, also in place", T,
                   float, bf16, double) {
  for (auto const kind : kinds)
    for (auto const size : odd_sizes) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(size);
      auto const run = [&](auto& s, auto y, auto x) { ops::activation(s, y, x, kind); };
      compare_host({3.0 * unit<T>, 1e-6}, run, random<T>(size, 2), random<T>(size, 3, 2.0));
      compare_host(
          {3.0 * unit<T>, 4e-6},
          [&](auto& s, auto in_place, auto dx, auto x) {
            ops::activation_backward(s, dx, x, in_place, kind);
            ops::activation_backward(s, in_place, x, in_place, kind);
          },
          random<T>(size, 4), random<T>(size, 5), random<T>(size, 3, 2.0));
    }
}

TEST_CASE("activation: infinity, zero and NaN give the limits of the formula") {
  float const infinity = std::numeric_limits<float>::infinity();
  std::vector<float> const x{-100.0F, 100.0F, 0.0F, std::nanf(""), 1e-30F, -1e-30F};
  std::vector<float> const dy(x.size(), 1.0F);
  for (auto const kind : kinds) {
    CAPTURE(static_cast<int>(kind));
    std::vector<float> y(x.size()), dx(x.size());
    on_host(1, [&](auto& s) {
      ops::activation(s, std::span(y), std::span(x), kind);
      ops::activation_backward(s, std::span(dx), std::span(x), std::span(dy), kind);
    });
    CHECK(std::abs(y[0]) <= 1e-38F);
    CHECK(y[1] == 100.0F);
    CHECK(y[2] == 0.0F);
    CHECK(std::isnan(y[3]));
    CHECK(y[4] == (kind == relu ? 1e-30F : 5e-31F));
    CHECK(std::abs(dx[0]) <= 1e-38F);
    CHECK(dx[1] == 1.0F);
    CHECK(dx[2] == (kind == relu ? 0.0F : 0.5F));
    CHECK((std::isnan(dx[3]) || kind == relu));
    std::vector<float> infinite{infinity};
    on_host(1,
            [&](auto& s) { ops::activation(s, std::span(infinite), std::span(infinite), kind); });
    CHECK(infinite[0] == infinity);
  }
}

TEST_CASE("activation: the meta device counts operations by kind") {
  parallel::meta::stream s;
  std::span<bf16> const x(static_cast<bf16*>(nullptr), 7);
  ops::activation(s, x, x, gelu);
  ops::activation_backward(s, x, x, x, gelu);
  CHECK(s.operations() == 7 * (5 + 10));
  ops::activation(s, x, x, relu);
  ops::activation_backward(s, x, x, x, relu);
  CHECK(s.operations() == 7 * (5 + 10 + 1 + 1));
}

}  // namespace activation_test
