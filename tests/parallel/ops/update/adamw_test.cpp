// adamw against Composer's DecoupledAdamW (golden numbers) and an independent loop in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <parallel/ops/host/update/adamw.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/ops/update/adamw.hpp>
#include <support/golden/golden_steps.hpp>

#include "parallel/ops/support.hpp"

namespace adamw_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

/// Runs all five golden steps; `suffix` names the run of Composer (fp32 or fp64) to compare with.
template <class A, class Stream>
void follow_golden(Stream& s, std::string const& suffix, double relative, double absolute) {
  test::follow_golden<A>(
      "adamw.safetensors", suffix, {"exp_avg", "exp_avg_sq"},
      [&](auto& values, auto& states, std::vector<A> const& g, double lr, std::size_t step) {
        ops::adamw(s, std::span(values), std::span(values), std::span(states[0]),
                   std::span(states[1]), std::span<A const>(g),
                   {.lr = lr,
                    .initial_lr = 1e-2,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 1e-3,
                    .step = static_cast<std::int64_t>(step) + 1});
        s.synchronize();
      },
      [&](std::string const& name, auto const& got, auto const& expected) {
        CAPTURE(name);
        // averages are sums of numbers of about 10
        CHECK(excess(got, expected, relative) <= (name == "exp_avg" ? 10.0 : 1.0) * absolute);
      });
}

TEST_CASE("adamw: five steps equal Composer's DecoupledAdamW, whose first learning rate is 0") {
  parallel::reference::stream reference;
  parallel::host::stream host;
  follow_golden<double>(reference, "64", 1e-14, 1e-15);
  follow_golden<double>(host, "64", 1e-14, 1e-15);
  // in float: some roundings of numbers of about 1, and cancellation in m
  follow_golden<float>(reference, "", 1e-6, 1e-7);
  follow_golden<float>(host, "", 1e-6, 1e-7);
}

struct step_of_double {
  double p, m, v;
  void operator()(double g, ops::adamw_options<double> const& o) {
    if (o.weight_decay != 0.0) p *= 1.0 - o.lr / o.initial_lr * o.weight_decay;
    m = o.beta1 * m + (1.0 - o.beta1) * g;
    v = o.beta2 * v + (1.0 - o.beta2) * g * g;
    double const correction1 = 1.0 - std::pow(o.beta1, double(o.step));
    double const correction2 = 1.0 - std::pow(o.beta2, double(o.step));
    p -= o.lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + o.eps);
  }
};

TEST_CASE_TEMPLATE(
    "adamw: steps with a gradient scale follow the formula, with any number of threads", T, float,
    bf16, double) {
  using A = accumulate_t<T>;
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    auto const start = random<A>(size, 1);
    A scale = 0;  // set by a task: a scale that is read at the call would be 0
    std::vector<step_of_double> exact;
    for (A const p : start) exact.push_back({double(p), 0.0, 0.0});
    struct state {
      std::vector<T> values;
      std::vector<A> master, m, v;
    };
    auto const fresh = [&] {
      return state{std::vector<T>(start.size()), start, std::vector<A>(start.size()),
                   std::vector<A>(start.size())};
    };
    auto a = fresh(), b = fresh(), c = fresh();
    for (std::int64_t step = 1; step <= 3; ++step) {
      auto const g = random<A>(size, 10 + static_cast<std::uint64_t>(step), 100.0);
      auto const run = [&](auto& s, state& target) {
        ops::adamw(s, std::span(target.values), std::span(target.master), std::span(target.m),
                   std::span(target.v), std::span<A const>(g),
                   {.lr = 5e-3,
                    .initial_lr = 1e-2,
                    .weight_decay = 1e-2,
                    .step = step,
                    .gradient_scale = &scale});
      };
      on_host(1, [&](auto& s) {
        s.enqueue([&] { scale = A(0.01); });
        run(s, b);
      });
      on_host(2, [&](auto& s) { run(s, c); });
      on_reference([&](auto& s) { run(s, a); });
      for (std::size_t i = 0; i < exact.size(); ++i)
        exact[i](double(g[i]) * double(scale),
                 {.lr = 5e-3, .initial_lr = 1e-2, .weight_decay = 1e-2, .step = step});
    }
    std::vector<double> p, m, v;
    for (auto const& e : exact) {
      p.push_back(e.p);
      m.push_back(e.m);
      v.push_back(e.v);
    }
    for (auto const* got : {&a, &b}) {
      CHECK(excess(got->master, p, 10.0 * unit<A>) <= 20.0 * unit<A>);
      CHECK(excess(got->m, m, 10.0 * unit<A>) <= 4.0 * unit<A>);
      CHECK(excess(got->v, v, 20.0 * unit<A>) <= unit<A>);
      for (std::size_t i = 0; i < p.size(); ++i)
        CHECK(got->values[i] == static_cast<T>(got->master[i]));
    }
    CHECK(same_bits(b.values, c.values));
    CHECK(same_bits(b.master, c.master));
    CHECK(same_bits(b.m, c.m));
    CHECK(same_bits(b.v, c.v));
  }
}

TEST_CASE("adamw: the vector square root has an error of 1 ulp and keeps 0 and infinity") {
  namespace simd = parallel::host::simd;
  double worst = 0.0;
  float const infinity = std::numeric_limits<float>::infinity();
  for (float x = 1e-37F; x < 1e37F; x *= 1.0001F) {
    float root = 0.0F;
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      simd::store_partial(&root, parallel::host::detail::square_root(simd::pack<float, lanes>(x)),
                          1);
    });
    worst = std::max(worst, std::abs(double(root) / std::sqrt(double(x)) - 1.0));
  }
  CHECK(worst <= 0x1p-23);
  for (float const x : {0.0F, infinity}) {
    float root = -1.0F;
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      simd::store_partial(&root, parallel::host::detail::square_root(simd::pack<float, lanes>(x)),
                          1);
    });
    CHECK(root == x);
  }
}

TEST_CASE("adamw: a NaN gradient makes its weight NaN, and no other weight") {
  std::vector<float> p(20, 1.0F), m(20), v(20), g(20, 1.0F);
  g[18] = std::nanf("");
  on_host(1, [&](auto& s) {
    ops::adamw(s, std::span(p), std::span(p), std::span(m), std::span(v), std::span<float const>(g),
               {});
  });
  for (std::size_t i = 0; i < 20; ++i) CHECK(std::isnan(p[i]) == (i == 18));
}

TEST_CASE("adamw: step 0 is refused") {
  std::vector<float> p(1);
  std::string message;
  try {
    on_reference([&](auto& s) {
      ops::adamw(s, std::span(p), std::span(p), std::span(p), std::span(p),
                 std::span<float const>(p), {.step = 0});
    });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::adamw: step is 0, but the first update is step 1");
}

TEST_CASE("adamw: the meta device counts 15 operations per element") {
  parallel::meta::stream s;
  std::span<bf16> const values(static_cast<bf16*>(nullptr), 7);
  std::span<float> const state(static_cast<float*>(nullptr), 7);
  ops::adamw(s, values, state, state, state, state, {});
  CHECK(s.operations() == 105);
}

}  // namespace adamw_test
