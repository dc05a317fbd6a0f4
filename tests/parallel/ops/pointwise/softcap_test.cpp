// softcap against the formula in double, numeric derivatives, and the host.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <parallel/ops/host/pointwise/softcap.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace softcap_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

TEST_CASE(
    "softcap: the reference is cap tanh(scale x / cap), its gradient the numeric derivative") {
  auto const x = random<double>(1000, 1, 5.0);
  std::vector<double> const dy(x.size(), 2.0);
  std::vector<double> y(x.size()), dx(x.size());
  ops::softcap_options const options{.cap = 3.0, .scale = 0.5};
  on_reference([&](auto& s) {
    ops::softcap(s, std::span(y), std::span(x), options);
    ops::softcap_backward(s, std::span(dx), std::span(std::as_const(y)), std::span(dy), options);
  });
  auto const formula = [](double v) { return 3.0 * std::tanh(v / 6.0); };
  double const h = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::abs(y[i] - formula(x[i])) <= 1e-15);
    CHECK(std::abs(dx[i] - 2.0 * (formula(x[i] + h) - formula(x[i] - h)) / (2.0 * h)) <= 1e-9);
  }
}

TEST_CASE_TEMPLATE("softcap: the host equals the reference for odd sizes, also in place", T, float,
                   bf16, double) {
  using A = accumulate_t<T>;
  ops::softcap_options const options{.cap = 2.5, .scale = 0.75};
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    auto x = random<A>(size, 1, 4.0);
    compare_host(
        {4.0 * unit<A>, 4.0 * unit<A>}, [&](auto& s, auto y) { ops::softcap(s, y, y, options); },
        x);
    on_reference([&](auto& s) { ops::softcap(s, std::span(x), std::span(x), options); });
    compare_host(
        {3.0 * unit<T>, 8.0 * unit<A>},
        [&](auto& s, auto dx, auto y) {
          ops::softcap_backward(s, dx, std::span<A const>(y), std::span<T const>(dx), options);
        },
        random<T>(size, 2), x);
  }
}

TEST_CASE("softcap: the result is within the cap for every logit, and NaN stays NaN") {
  float const infinity = std::numeric_limits<float>::infinity();
  std::vector<float> y{1e30F, -infinity, infinity, 0.0F, std::nanf("")};
  on_host(1, [&](auto& s) { ops::softcap(s, std::span(y), std::span(y), {.cap = 30.0}); });
  CHECK(y[0] == 30.0F);
  CHECK(y[1] == -30.0F);
  CHECK(y[2] == 30.0F);
  CHECK(y[3] == 0.0F);
  CHECK(std::isnan(y[4]));
}

TEST_CASE("softcap: the meta device counts 3 operations per element forward, 5 backward") {
  parallel::meta::stream s;
  std::span<float> const y(static_cast<float*>(nullptr), 7);
  std::span<bf16> const dx(static_cast<bf16*>(nullptr), 7);
  ops::softcap(s, y, y, {});
  ops::softcap_backward(s, dx, y, dx, {});
  CHECK(s.operations() == 7 * 8);
}

}  // namespace softcap_test
