// gelu and its gradient against the formula in double, and numeric derivatives.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include <parallel/ops/host/gelu.hpp>
#include <parallel/ops/meta/gelu.hpp>
#include <parallel/ops/reference/gelu.hpp>

#include "support.hpp"

namespace gelu_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;

double formula(double x) { return x * 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2)); }

TEST_CASE("the reference is x/2 (1 + erf(x/sqrt 2))") {
  auto const x = random<double>(1000, 1, 2.0);
  std::vector<double> y(x.size());
  on_reference([&](auto& s) { ops::gelu(s, std::span(y), std::span(x)); });
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(y[i] - formula(x[i])) <= 1e-15);
}

TEST_CASE("the reference gradient is the numeric derivative") {
  auto const x = random<double>(1000, 2, 2.0);
  std::vector<double> dx(x.size());
  std::vector<double> const dy(x.size(), 3.0);
  on_reference([&](auto& s) { ops::gelu_backward(s, std::span(dx), std::span(x), std::span(dy)); });
  double const h = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(dx[i] - 3.0 * (formula(x[i] + h) - formula(x[i] - h)) / (2.0 * h)) <= 1e-8);
}

TEST_CASE_TEMPLATE("the host equals the reference for odd sizes, in place too", T, float, bf16,
                   double) {
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    auto const x = random<T>(size, 3, 2.0);
    auto const dy = random<T>(size, 4);
    std::vector<T> y(x.size()), dx(x.size());
    on_reference([&](auto& s) {
      ops::gelu(s, std::span(y), std::span(x));
      ops::gelu_backward(s, std::span(dx), std::span(x), std::span(dy));
    });
    auto const in_place = [&](int threads, std::vector<T>& forward, std::vector<T>& backward) {
      forward = x;
      backward = dy;
      on_host(threads, [&](auto& s) {
        ops::gelu(s, std::span(forward), std::span(forward));
        ops::gelu_backward(s, std::span(backward), std::span(x), std::span(backward));
      });
    };
    std::vector<T> y1, y2, dx1, dx2;
    in_place(1, y1, dx1);
    in_place(2, y2, dx2);
    CHECK(excess(y1, y, 3.0 * unit<T>) <= 1e-6);
    CHECK(excess(dx1, dx, 3.0 * unit<T>) <= 4e-6);
    CHECK(same_bits(y1, y2));
    CHECK(same_bits(dx1, dx2));
  }
}

TEST_CASE("extremes: infinity, zero and NaN") {
  float const infinity = std::numeric_limits<float>::infinity();
  std::vector<float> const x{-100.0F, 100.0F, 0.0F, std::nanf(""), 1e-30F, -1e-30F};
  std::vector<float> y(x.size()), dx(x.size());
  std::vector<float> const dy(x.size(), 1.0F);
  on_host(1, [&](auto& s) {
    ops::gelu(s, std::span(y), std::span(x));
    ops::gelu_backward(s, std::span(dx), std::span(x), std::span(dy));
  });
  CHECK(y[0] == 0.0F);
  CHECK(y[1] == 100.0F);
  CHECK(y[2] == 0.0F);
  CHECK(std::isnan(y[3]));
  CHECK(y[4] == 5e-31F);
  CHECK(dx[0] == 0.0F);
  CHECK(dx[1] == 1.0F);
  CHECK(dx[2] == 0.5F);
  CHECK(std::isnan(dx[3]));
  std::vector<float> far{infinity};
  on_host(1, [&](auto& s) { ops::gelu(s, std::span(far), std::span(far)); });
  CHECK(far[0] == infinity);
}

TEST_CASE("the meta device counts 5 operations an element forward, 10 backward") {
  parallel::meta::stream s;
  std::span<bf16> const x(static_cast<bf16*>(nullptr), 7);
  ops::gelu(s, x, x);
  ops::gelu_backward(s, x, x, x);
  CHECK(s.operations() == 105);
}

}  // namespace gelu_test
